/** What a JavaScript cell leaves behind speaks for that cell, and for no other. */

import { afterAll, beforeAll, expect, test } from "vitest";
import {
  startInterpreterServer,
  textOf,
  type InterpreterServer,
} from "../../support/daemon/interpreter-server.ts";

let server: InterpreterServer;
beforeAll(async () => {
  server = await startInterpreterServer();
}, 30_000);
afterAll(async () => server[Symbol.asyncDispose]());

const run = async (code: string) => server.run(code, { language: "js" });

/** Waits inside a cell until code of an earlier one has run three times more. */
const LATER = `await new Promise((go) => {
  const end = seen + 3;
  const timer = setInterval(() => { if (seen >= end) { clearInterval(timer); go(); } }, 1);
}); "over"`;

test.for([
  ["output of a timer", "console.log('late')"],
  ["errors of a timer", "setImmediate(() => { throw new Error('late') })"],
  ["failed promises", "Promise.reject(new Error('late'))"],
  ["pictures", "display({ 'text/plain': 'late' })"],
])("%s belong to the cell that began them", async ([, code = ""]) => {
  await run(`var seen = 0; var ticks = setInterval(() => { seen += 1; ${code}; }, 1);`);
  const lines = await run(LATER);
  await run("clearInterval(ticks)");
  expect(lines.map(({ type }) => type)).toEqual([
    "number_of_executions",
    "result",
    "end_of_execution",
  ]);
});

test("a cell that replaces a method of sets changes its own code alone", async () => {
  await run("var add = Set.prototype.add; Set.prototype.add = () => { throw new Error('no'); };");
  const lines = await run("await 1; typeof add");
  await run("Set.prototype.add = add");
  expect(lines.map(({ type }) => type)).toEqual([
    "number_of_executions",
    "result",
    "end_of_execution",
  ]);
  expect(textOf(lines, "result")).toBe("function");
});

test("while its cell runs, a timer is heard", async () => {
  const code = `setTimeout(() => console.log("heard"), 1);
    setTimeout(() => { throw new Error("told") }, 5);
    await new Promise((go) => setTimeout(go, 50))`;
  const lines = await run(code);
  expect(textOf(lines, "stdout")).toBe("heard\n");
  expect(textOf(lines, "stderr")).toContain("told");
});

test("a listener of an earlier cell is heard where the running cell has it called", async () => {
  await run(
    'var bus = new EventEmitter(); bus.on("x", () => console.log("heard"))'.replace(
      "new EventEmitter()",
      'new (require("node:events"))()',
    ),
  );
  expect(textOf(await run('bus.emit("x")'), "stdout")).toBe("heard\n");
});

test.for([
  ["an emitter", 'new (require("node:events"))()', "source.emit('x')", "on"],
  ["an emitter, once", 'new (require("node:events"))()', "source.emit('x')", "once"],
  ["a target", "new EventTarget()", "source.dispatchEvent(new Event('x'))", "addEventListener"],
])("a listener of the running cell is heard whoever calls it: %s", async ([, ...parts]) => {
  const [source, emit, add] = parts;
  await run(`var source = ${source}; var ticks = setInterval(() => ${emit}, 1)`);
  const code = `await new Promise((go) => source.${add}("x", () => { console.log("heard"); go(); }))`;
  const lines = await run(`${code}; clearInterval(ticks)`);
  expect(textOf(lines, "stdout")).toContain("heard\n");
});

test("listeners are counted, listed and taken away as ever", async () => {
  const code = `var e = new (require("node:events"))(), t = new EventTarget(), calls = [];
    const f = () => calls.push("f"), g = () => calls.push("g"), h = () => calls.push("h");
    e.on("x", f); e.once("x", g); e.prependOnceListener("x", h);
    const listed = e.listeners("x").map((one) => [f, g, h].indexOf(one)).join();
    e.emit("x"); e.emit("x"); const after = e.listenerCount("x");
    e.once("x", g); e.off("x", f); e.off("x", g);
    t.addEventListener("x", f); t.addEventListener("x", f); t.dispatchEvent(new Event("x"));
    t.removeEventListener("x", f); t.dispatchEvent(new Event("x"));
    [listed, after, e.listenerCount("x"), calls.join("")].join(" ")`;
  expect(textOf(await run(code), "result")).toBe("2,0,1 1 0 hfgff");
});

test("a listener for failures that fails itself ends no kernel", async () => {
  await run('var kept = 1; process.on("uncaughtException", () => { throw new Error("second") })');
  const lines = await run(`setTimeout(() => { throw new Error("first") }, 1);
    await new Promise((go) => setTimeout(go, 50)); kept`);
  expect(textOf(lines, "result")).toBe("1");
  expect(textOf(lines, "stderr")).toMatch(/first[^]*second/);
  await run('process.removeAllListeners("uncaughtException")');
  expect(textOf(await run("setTimeout(() => { throw 1 }, 0); kept"), "result")).toBe("1");
  expect(textOf(await run("kept"), "result")).toBe("1");
});

test("an interrupted cell tells nothing of a later one", async () => {
  const leave = new AbortController();
  // An interrupt may come as soon as "up" is read.
  const code = `var released = new Promise((go) => { globalThis.release = go; });
    process.stdout.write("up"); await released; "first"`;
  const reply = await fetch(`${server.url}/execute`, {
    method: "POST",
    body: JSON.stringify({ code, language: "js", env_vars: { LEFT: "first" } }),
    signal: leave.signal,
  });
  let text = "";
  const decoder = new TextDecoder();
  for await (const part of reply.body ?? []) {
    text += decoder.decode(part, { stream: true });
    if (text.includes('"up"')) break;
  }
  leave.abort();
  const lines = await server.run(
    `release(); await new Promise((go) => setTimeout(go, 50)); process.env.LEFT`,
    { language: "js", env_vars: { LEFT: "second" } },
  );
  expect(lines.filter(({ type }) => type === "result")).toEqual([
    { type: "result", is_main_result: true, text: "second" },
  ]);
  expect(textOf(await run("process.env.LEFT ?? 'none'"), "result")).toBe("none");
});
