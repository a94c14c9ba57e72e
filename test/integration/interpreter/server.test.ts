/** The interpreter's server: routes, lines, contexts and ends, with the kernels of our own. */

import { readdirSync, readFileSync } from "node:fs";
import { rm } from "node:fs/promises";
import { request } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  startInterpreterServer,
  textOf,
  type InterpreterServer,
} from "../../support/daemon/interpreter-server.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

let server: InterpreterServer;
beforeAll(async () => {
  server = await startInterpreterServer();
}, 30_000);
afterAll(async () => server[Symbol.asyncDispose]());

test("health answers once the first cell does not wait", async () => {
  expect(await server.call("GET", "/health")).toEqual({ status: 200, text: '"OK"' });
});

test("a cell is told by lines in the order of the contract", async () => {
  const lines = await server.run("console.log('a'); console.error('b'); 1 + 1", { language: "js" });
  expect(lines.map(({ type }) => type).toSorted()).toEqual([
    "end_of_execution",
    "number_of_executions",
    "result",
    "stderr",
    "stdout",
  ]);
  expect(lines.at(-1)).toEqual({ type: "end_of_execution" });
  expect(lines.find(({ type }) => type === "result")).toEqual({
    type: "result",
    is_main_result: true,
    text: "2",
  });
});

test.for([
  ["await at the top", "const n = await Promise.resolve(20); n * 2", "40"],
  ["a declaration again", "const n = 5; n", "5"],
  ["a value of the cell before", "n + 1", "6"],
  ["types", "interface P { x: number }; const p = { x: 3 } as P; p.x", "3"],
  ["imports", 'import path, { join } from "node:path"; join("a", path.sep)', "a/"],
  ["an import inside", 'const m = await import("node:os"); m.EOL.length', "1"],
  ["a text without its quotes", "'abc'", "abc"],
  ["require", 'require("node:util").format("%d", 4)', "4"],
  ["nothing", "undefined", ""],
] as const)("javascript: %s", async ([, code, text]) => {
  expect(textOf(await server.run(code, { language: "typescript" }), "result")).toBe(text);
});

/** Node 26 only takes types away. */
const CAN_TRANSFORM = Number(process.versions.node.split(".")[0]) < 26;
const ENUM = CAN_TRANSFORM
  ? { type: "result", text: "7" }
  : { type: "error", text: "TypeScript enum is not supported in strip-only mode" };

test("an enum runs where node makes code of it, and is a fault elsewhere", async () => {
  const code = "enum Color { Red = 7 }; Color.Red";
  expect(textOf(await server.run(code, { language: "typescript" }), ENUM.type)).toBe(ENUM.text);
});

test("an object is told as JSON too, and a display as its types say", async () => {
  const value = await server.run("({ a: [1, 2] })", { language: "javascript" });
  expect(value).toContainEqual({
    type: "result",
    is_main_result: true,
    text: "{ a: [ 1, 2 ] }",
    json: { a: [1, 2] },
  });
  const shown = await server.run('display({ "text/html": "<b>", "image/png": "QQ==\\n" })', {
    language: "js",
  });
  expect(shown).toContainEqual({
    type: "result",
    is_main_result: false,
    html: "<b>",
    png: "QQ==",
  });
});

test("an error has its name, its value and its place", async () => {
  const lines = await server.run("throw new TypeError('bad')", { language: "js" });
  expect(lines).toContainEqual({
    type: "error",
    name: "TypeError",
    value: "bad",
    traceback: "TypeError: bad\n    at <anonymous>:1:7",
  });
});

test("an error has its causes, of which none is code", async () => {
  const code = `const first = new Error("why", { cause: "at last" });
    Object.defineProperty(first, "stack", { value: "Error: why" });
    const second = Object.assign(new Error("how"), { stack: "Error: how", cause: first });
    const lone = new Error("alone");
    Object.defineProperty(lone, "cause", { get() { console.log("read"); } });
    first.loop = second;
    throw new Error("what", { cause: second });`;
  const lines = await server.run(code, { language: "js" });
  expect(lines.find(({ type }) => type === "error")?.["traceback"]).toMatch(
    /^Error: what\n {4}at <anonymous>:7:11\n\[cause\]: Error: how\n\[cause\]: Error: why\n\[cause\]: at last$/,
  );
  const round = await server.run("const e = new Error('a'); e.cause = e; throw e", {
    language: "js",
  });
  expect(
    String(round.find(({ type }) => type === "error")?.["traceback"]).split("[cause]"),
  ).toHaveLength(9);
  const getter = await server.run("throw lone", { language: "js" });
  expect(textOf(getter, "stdout")).toBe("");
});

test("bash keeps variables, functions and its directory, and tells an exit status", async () => {
  await server.run('x=3; f() { echo "f $x"; }; cd /tmp', { language: "bash" });
  const lines = await server.run("f; pwd; false", { language: "bash" });
  expect(textOf(lines, "stdout")).toBe("f 3\n/tmp\n");
  expect(textOf(lines, "error")).toBe("1");
});

test("bash warns once of a locale that is not there", async () => {
  const language = "bash";
  const first = await server.run("export LC_ALL=none", { language });
  expect(textOf(first, "stderr")).toContain("cannot change locale");
  const next = await server.run("echo 1; unset LC_ALL", { language });
  expect([textOf(next, "stdout"), textOf(next, "stderr")]).toEqual(["1\n", ""]);
});

test("bash traces cells and nothing of its own", async () => {
  const made = await server.call("POST", "/contexts", { language: "bash", cwd: "/" });
  const { id: context_id } = JSON.parse(made.text);
  const env_vars = { A: "1" };
  const first = await server.run("set -x; f() { return 3; }; f", { context_id, env_vars });
  expect([textOf(first, "stderr"), textOf(first, "error")]).toEqual(["++ f\n++ return 3\n", "3"]);
  const next = await server.run("# b\necho $LINENO; set +x", { context_id, env_vars });
  expect([textOf(next, "stderr"), textOf(next, "stdout")]).toEqual([
    "++ echo 2\n++ set +x\n",
    "2\n",
  ]);
  expect(textOf(await server.run("echo b", { context_id, env_vars }), "stderr")).toBe("");
  await server.call("DELETE", `/contexts/${context_id}`);
});

test("bash takes variables of a call back, whatever a cell makes of IFS", async () => {
  const made = await server.call("POST", "/contexts", { language: "bash", cwd: "/" });
  const { id: context_id } = JSON.parse(made.text);
  await server.run("export A=old B=other; IFS=$'\\n'", { context_id });
  await server.run("true", { context_id, env_vars: { A: "1", B: "2" } });
  const lines = await server.run('echo "$A,$B,${#IFS}"', { context_id });
  expect(textOf(lines, "stdout")).toBe("old,other,1\n");
  await server.call("DELETE", `/contexts/${context_id}`);
});

test.for(["bash", "js"])("variables of a call are taken back: %s", async (language) => {
  const code = language === "bash" ? 'echo "$A"' : "console.log(process.env.A ?? '')";
  const value = 'it\'s "$HOME"\n\\';
  const set = await server.run(code, { language, env_vars: { A: value } });
  expect(textOf(set, "stdout")).toBe(`${value}\n`);
  expect(textOf(await server.run(code, { language }), "stdout")).toBe("\n");
});

test("contexts are made, listed, restarted and removed", async () => {
  const made = await server.call("POST", "/contexts", { cwd: "/tmp", language: "js" });
  const { id, ...facts } = JSON.parse(made.text);
  expect(facts).toEqual({ language: "javascript", cwd: "/tmp" });
  const run = async (code: string) => textOf(await server.run(code, { context_id: id }), "result");
  expect(await run("var kept = process.cwd(); kept")).toBe("/tmp");
  expect((await server.call("POST", `/contexts/${id}/restart`)).status).toBe(200);
  expect(await run("typeof kept")).toBe("undefined");
  const listed = JSON.parse((await server.call("GET", "/contexts")).text);
  expect(listed).toContainEqual({ id, ...facts, memory_mb: expect.any(Number) });
  expect((await server.call("DELETE", `/contexts/${id}`)).status).toBe(200);
  expect(await server.call("POST", "/execute", { code: "1", context_id: id })).toEqual({
    status: 404,
    text: `Context ${id} not found`,
  });
});

test.for([
  ["POST", "/execute", { code: "1", language: "js", context_id: "x" }, 400],
  ["POST", "/execute", { code: 1 }, 400],
  ["POST", "/execute", { code: "1", language: "r" }, 400],
  ["POST", "/execute", { code: "1", env_vars: { "A=B": "" } }, 400],
  ["POST", "/execute", { code: "1", env_vars: { A: 1 } }, 400],
  ["POST", "/execute", { code: "'\ud800'", language: "js" }, 400],
  ["POST", "/execute", { code: "1", env_vars: { A: "\ud800" } }, 400],
  ["POST", "/execute", { code: "1", language: "\ud800" }, 400],
  ["POST", "/contexts", { cwd: "/no/such" }, 400],
  ["POST", "/contexts/none/restart", undefined, 404],
  ["DELETE", "/contexts/none", undefined, 404],
  ["GET", "/nothing", undefined, 404],
] as const)("%s %s %j → %d", async ([method, path, body, status]) => {
  expect((await server.call(method, path, body)).status).toBe(status);
});

test("a kernel that ends is told as such and started again", async () => {
  const died = await server.run("process.exit(3)", { language: "js" });
  expect(died.find(({ type }) => type === "error")).toEqual({
    type: "error",
    name: "KernelDied",
    value: "the kernel exited with code 3; its variables are gone",
    traceback: "",
  });
  expect(textOf(await server.run("1", { language: "js" }), "result")).toBe("1");
});

const COLLECT =
  'require("v8").setFlagsFromString("--expose-gc"); var gc = require("vm").runInNewContext("gc")';

test.for([
  ["js", "for (;;);", "keep"],
  ["js", "await new Promise(() => {})", "keep"],
  ["js", 'for (;;) console.log("x".repeat(1_000))', "keep"],
  ["js", "setTimeout(() => { for (;;); }); await new Promise(() => {})", "keep"],
  ["js", "setImmediate(() => { for (;;); }); await new Promise(() => {})", "keep"],
  // Nothing can settle it any more, and V8 tells so while it collects garbage.
  ["js", `${COLLECT}; setTimeout(gc, 50); await new Promise(() => {})`, "keep"],
  ["bash", "yes", "echo $keep"],
  ["bash", "while true; do :; done", "echo $keep"],
  ["bash", "sleep 100 | cat", "echo $keep"],
])("a caller that leaves interrupts: %s %s", async ([language = "", code = "", look = ""]) => {
  await server.run(language === "bash" ? "keep=7" : "var keep = 7", { language });
  const leave = new AbortController();
  const left = server.run(code, { language, signal: leave.signal });
  await delay(300);
  leave.abort();
  await expect(left).rejects.toThrow("aborted");
  const lines = await server.run(look, { language });
  expect(textOf(lines, language === "bash" ? "stdout" : "result").trim()).toBe("7");
});

test("runs of one context come one after the other", async () => {
  const codes = Array.from({ length: 8 }, (_, index) => index);
  const results = await Promise.all(
    codes.map(async (index) =>
      textOf(
        await server.run(
          `var seen = ${index}; await new Promise((go) => setTimeout(go, 20)); seen`,
          { language: "js" },
        ),
        "result",
      ),
    ),
  );
  expect(results).toEqual(codes.map(String));
});

test("much output arrives whole", async () => {
  const code = 'for (let i = 0; i < 50_000; i += 1) console.log("x".repeat(99))';
  expect(textOf(await server.run(code, { language: "js" }), "stdout")).toHaveLength(5_000_000);
  const yes = await server.run("yes 123456789 | head -c 5000000", { language: "bash" });
  expect(textOf(yes, "stdout")).toHaveLength(5_000_000);
});

test("a context that cannot start leaves nothing open", async () => {
  const [worker = ""] = readFileSync(
    `/proc/${server.pid}/task/${server.pid}/children`,
    "latin1",
  ).split(" ");
  const countOpen = () => readdirSync(`/proc/${worker}/fd`).length;
  await using folder = await makeTempFolder();
  const made = await server.call("POST", "/contexts", { cwd: folder.path, language: "bash" });
  const { id } = JSON.parse(made.text);
  await rm(folder.path, { recursive: true });
  await server.call("POST", `/contexts/${id}/restart`);
  const before = countOpen();
  for (let count = 0; count < 5; count += 1) {
    expect((await server.call("POST", `/contexts/${id}/restart`)).status).toBe(500);
  }
  await expect.poll(countOpen).toBeLessThanOrEqual(before);
  expect((await server.call("DELETE", `/contexts/${id}`)).status).toBe(200);
});

test("a display that makes no bundle is shown as the value that it is", async () => {
  const show = '({ [Symbol.for("Jupyter.display")]: () => "text", kept: 1 })';
  const lines = await server.run(show, { language: "js" });
  expect(textOf(lines, "result")).toContain("kept: 1");
  expect(textOf(await server.run("41 + 1", { language: "js" }), "result")).toBe("42");
});

test.for([
  ["a function", "function process(rows) { return rows; }"],
  ["names of the language", "const Buffer = 1, JSON = 2, Object = 3, Promise = 4, Reflect = 5"],
  ["a timer", 'const { setTimeout } = require("node:timers/promises")'],
])("a cell may use names of the kernel: %s", async ([, code = ""]) => {
  const made = await server.call("POST", "/contexts", { language: "js", cwd: "/" });
  const { id: context_id } = JSON.parse(made.text);
  await server.run(code, { context_id });
  const late = `var { setTimeout: later } = require("node:timers");
    later(() => { throw "late"; }, 0); await { then(go) { later(go, 20); } }; "over"`;
  const lines = await server.run(late, { context_id });
  expect(textOf(lines, "stderr")).toContain("late");
  expect(textOf(lines, "result")).toBe("over");
  await server.call("DELETE", `/contexts/${context_id}`);
});

test.for(["null", "undefined", "5", "Symbol(s)"])("%s may be thrown", async (text) => {
  const code = `throw ${text.replace("(s)", "('s')")}`;
  expect(textOf(await server.run(code, { language: "js" }), "error")).toBe(text);
});

test("an answer that no kernel gives is told, and the next cell has a new kernel", async () => {
  const answer = "JSON.stringify({ type: 'result', data: 7 }) + '\\n'";
  const code = `for (const fd of require("fs").readdirSync("/proc/self/fd")) {
    try { if (+fd > 2) require("fs").writeSync(+fd, ${answer}); } catch {}
  } undefined`;
  const lines = await server.run(code, { language: "js" });
  expect(lines.find(({ type }) => type === "error")).toMatchObject({ name: "KernelDied" });
  expect(textOf(await server.run("40 + 2", { language: "js" }), "result")).toBe("42");
});

test("a caller that leaves while the kernel starts has no cell run", async () => {
  const language = "bash";
  await server.run("kill -9 $$", { language });
  const left = Array.from({ length: 3 }, async () => {
    const leave = new AbortController();
    const run = server.run("while true; do :; done", { language, signal: leave.signal });
    await delay(5);
    leave.abort();
    await expect(run).rejects.toThrow("aborted");
  });
  await Promise.all(left);
  expect(textOf(await server.run("echo on", { language }), "stdout")).toBe("on\n");
});

test("requests that are no HTTP, or too large, end their connection alone", async () => {
  const status = await new Promise((done, fail) => {
    const call = request(`${server.url}/execute`, {
      method: "POST",
      headers: { "content-length": 40_000_000 },
    });
    call.once("response", (reply) => done(reply.resume().statusCode)).once("error", fail);
    call.flushHeaders();
  });
  expect(status).toBe(413);
  expect((await server.call("POST", "/execute", "no object")).status).toBe(400);
  expect((await server.call("GET", "/health")).status).toBe(200);
});
