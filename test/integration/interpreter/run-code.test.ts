/** The program of run_code against the interpreter's server, and the tool without a server. */

import { execFile } from "node:child_process";
import { mkdir, readdir, readFile, utimes, writeFile } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  CELL_EXIT,
  CELL_FLAGS,
  CELL_PROGRAM,
  CELL_RECORD,
} from "../../../src/mcp/code/cell-program.ts";
import {
  startInterpreterServer,
  type InterpreterServer,
} from "../../support/daemon/interpreter-server.ts";
import { listenOnLoopback } from "../../support/loopback.ts";
import { startMcpWorld } from "../../support/mcp/mcp-sandbox.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const run = promisify(execFile);

let server: InterpreterServer;
beforeAll(async () => {
  server = await startInterpreterServer();
}, 30_000);
afterAll(async () => server[Symbol.asyncDispose]());

interface Cell {
  readonly code: string;
  readonly language?: string;
  readonly context?: string;
  readonly timeout?: number;
}

/** Cells of one folder of contexts, one after the other. */
async function runCells(cells: readonly Cell[], port = new URL(server.url).port) {
  await using root = await makeTempFolder();
  const outcomes = [];
  for (const [index, cell] of cells.entries()) {
    outcomes.push(await runCell(cell, join(root.path, `cell-${index}`), port));
  }
  return outcomes;
}

async function runCell(cell: Cell, folder: string, port = new URL(server.url).port) {
  const { code, language = "javascript", context, timeout = 0 } = cell;
  const request = JSON.stringify({ code, language, context: context ?? null, folder, timeout });
  const asked = `${folder}.request`;
  await writeFile(asked, request);
  const program = CELL_PROGRAM.replace("49999", port);
  const command = `exec python3 ${CELL_FLAGS.join(" ")} -c "$0" < "$1"`;
  const ended = run("bash", ["-c", command, program, asked]).then(
    ({ stdout, stderr }) => ({ code: 0, stdout, stderr }),
    ({ code: exitCode, stdout, stderr }) => ({ code: exitCode, stdout, stderr }),
  );
  const { code: exitCode, stdout, stderr } = await ended;
  const record = JSON.parse(await readFile(join(folder, CELL_RECORD), "utf8"));
  return { exitCode, stdout, stderr, record, folder };
}

const CELL_LINES = [
  { type: "stdout", text: "ä\n", timestamp: 1 },
  { type: "result", is_main_result: true, text: "42" },
  { type: "end_of_execution" },
]
  .map((line) => `${JSON.stringify(line)}\n`)
  .join("");

/** A body in chunks that end at these bytes, and at its end. */
function toChunks(body: string, ends: readonly number[]): string {
  const bytes = Buffer.from(body);
  const chunks = [0, ...ends].map((start, index) => bytes.subarray(start, ends[index]));
  const parts = chunks.map(
    (part) => `${part.length.toString(16)}\r\n${part.toString("latin1")}\r\n`,
  );
  return Buffer.from([...parts, "0\r\n\r\n"].join(""), "latin1").toString("utf8");
}

test("output, value and pictures become output and files", async () => {
  const png = Buffer.from("\u0089PNG\r\n\u001a\n", "latin1").toString("base64");
  const code = `console.log("out"); console.error("err"); display({ "image/png": "${png}" }); 6 * 7`;
  const [outcome] = await runCells([{ code }]);
  const { exitCode, stdout, stderr, record, folder } = outcome ?? {};
  expect({ exitCode, stderr, error: record.error }).toEqual({
    exitCode: CELL_EXIT.done,
    stderr: "err\n",
    error: null,
  });
  expect(stdout.split("\n").toSorted()).toEqual(["", "42", `[png: ${folder}/1.png]`, "out"]);
  expect(record.pictures).toEqual([`${folder}/1.png`]);
});

test("half a character and a picture that is none are no end of the interpreter", async () => {
  const [half, broken] = await runCells([
    { code: '"\\ud83d"' },
    { code: 'display({ "image/png": "A" }); 7' },
  ]);
  expect(half).toMatchObject({ exitCode: CELL_EXIT.done, stdout: "\\ud83d\n" });
  expect(broken?.exitCode).toBe(CELL_EXIT.done);
  expect(broken?.stdout).toMatch(/^\[png: not kept: .*\]\n7\n$/);
  expect(broken?.record.pictures).toEqual([]);
});

test("a context is kept by its name, apart from the others", async () => {
  const outcomes = await runCells([
    { code: "var kept = 5", context: "a" },
    { code: "kept", context: "a" },
    { code: "typeof kept", context: "b" },
  ]);
  expect(outcomes.map(({ stdout }) => stdout)).toEqual(["", "5\n", "undefined\n"]);
});

test("the folder of a cell that still runs outlives those of many later ones", async () => {
  await using root = await makeTempFolder();
  const [begun, go] = ["begun", "go"].map((name) => JSON.stringify(join(root.path, name)));
  const wait = `const fs = require("node:fs"); fs.writeFileSync(${begun}, "");
    while (!fs.existsSync(${go})) await new Promise((resume) => setTimeout(resume, 20)); 7`;
  const running = runCell({ code: wait, context: "a" }, join(root.path, "running"));
  await expect.poll(() => readdir(root.path), { timeout: 20_000 }).toContain("begun");
  for (let index = 0; index < 40; index += 1) {
    const folder = join(root.path, `later-${index}`);
    await mkdir(folder);
    await writeFile(join(folder, CELL_RECORD), "{}");
    const time = Date.now() / 1_000 + index;
    await utimes(folder, time, time);
  }
  await runCell({ code: "1", context: "b" }, join(root.path, "last"));
  const left = await readdir(root.path);
  await writeFile(join(root.path, "go"), "");
  expect(await running).toMatchObject({ exitCode: CELL_EXIT.done, stdout: "7\n", stderr: "" });
  expect([left.includes("later-0"), left.includes("later-39")]).toEqual([false, true]);
});

test("an error has its traceback, without the frames of libraries", async () => {
  const code = 'require("node:fs").readFileSync("/no/such/file")';
  const [outcome] = await runCells([{ code }]);
  expect(outcome?.exitCode).toBe(CELL_EXIT.failed);
  expect(outcome?.record.error.name).toBe("Error");
  expect(outcome?.stderr).toContain("frames of libraries left out");
  expect(outcome?.stderr).not.toContain("node:fs");
});

test("the time limit interrupts the cell and keeps the variables", async () => {
  const outcomes = await runCells([
    { code: "var kept = 8; for (;;);", timeout: 1 },
    { code: "kept" },
  ]);
  expect(outcomes.map(({ exitCode }) => exitCode)).toEqual([CELL_EXIT.late, CELL_EXIT.done]);
  expect(outcomes[1]?.stdout).toBe("8\n");
});

/** A cell of another server, which answers with this body. */
async function runForeign(body: string, cell: Cell, head = "") {
  const foreign = createServer((socket) => {
    socket.once("data", () => {
      socket.end(`HTTP/1.1 200 OK\r\nServer: other\r\n${head}\r\n${body}`);
    });
  });
  const port = await listenOnLoopback(foreign);
  const outcomes = await runCells([cell], String(port));
  foreign.close();
  return outcomes;
}

test.for([
  { form: "whole, until the connection ends", head: "", body: CELL_LINES },
  {
    form: "in parts that end within a line",
    head: "Transfer-Encoding: chunked\r\n",
    body: toChunks(CELL_LINES, [5, 60]),
  },
])("a reply of another server is read: $form", async ({ head, body }) => {
  const [outcome] = await runForeign(body, { code: "1" }, head);
  expect(outcome).toMatchObject({ exitCode: CELL_EXIT.done, stdout: "ä\n42\n" });
});

test("results of any shape neither end the program nor hide what follows", async () => {
  const deep = `${"[".repeat(20_000)}${"]".repeat(20_000)}`;
  const lines = [
    { type: "result", png: 5, jpeg: ["x"], text: "one" },
    { type: "result", is_main_result: true, text: { nested: [1] } },
    { type: "result", html: { a: 1 } },
    { type: "stdout" },
    ["no", "object"],
    { type: "number_of_executions", execution_count: "3" },
    { type: "error", name: ["Odd"], value: null },
  ].map((line) => JSON.stringify(line));
  const whole = [...lines, `{"type":"result","json":${deep}}`, "no json", CELL_LINES].join("\n");
  const [outcome] = await runForeign(whole, { code: "1" });
  expect(outcome?.exitCode).toBe(CELL_EXIT.failed);
  expect(outcome?.record).toMatchObject({ pictures: [], count: null });
  expect(outcome?.record.error.name).toBe("['Odd']");
  expect(outcome?.stdout).toMatch(
    /^\[png: not kept: it is no text\]\n\[jpeg: .*\n\{"nested": \[1\]\}\n\[html: .*\nä\n42\n$/,
  );
  expect(outcome?.stderr).toMatch(/a part of the reply is not shown: KeyError/);
  expect(outcome?.stderr).toMatch(/a part of the reply is not shown: RecursionError/);
});

const LONG_HTML = `<p>${"x".repeat(5_000)}</p>`;

test.for([
  { form: "HTML", shown: /^<b>1<.b>\n$/, fields: { html: "<b>1</b>" } },
  { form: "Markdown", shown: /^# one\n$/, fields: { markdown: "# one", html: "<h1>" } },
  { form: "Latex", shown: /^\$1\$\n$/, fields: { latex: "$1$" } },
  { form: "JSON", shown: /^\{"a": 1\}\n$/, fields: { json: { a: 1 } } },
  { form: "Styler at 0x7f3a", shown: /^<table>\n$/, fields: { html: "<table>" } },
  {
    form: "a whole text",
    shown: /^ {3}a\n0 {2}1\n$/,
    fields: { html: "<table>", text: "   a\n0  1" },
  },
  { form: "a name alone", shown: /^<IPython.core.display.X object>\n$/, fields: {} },
  { form: "long HTML", shown: /^\[html: \S+\.html\]\n$/, fields: { html: LONG_HTML } },
  {
    form: "a moving picture",
    shown: /^\[gif: \S+\.gif\]\n$/,
    fields: { extra: { "image/gif": "R0lG" } },
  },
  {
    form: "no types",
    shown: /^<IPython.core.display.X object>\n$/,
    fields: { extra: "image/gif" },
  },
  {
    form: "types of programs alone",
    shown: /^\[application\/x\+json: \S+\.json\]\n$/,
    fields: { text: undefined, extra: { "application/x+json": { a: [1] } } },
  },
])("what a display shows is its content, not the name of its object: $form", async (shape) => {
  const type = / at /.test(shape.form) ? `pandas.${shape.form}` : "IPython.core.display.X object";
  const line = { type: "result", text: `<${type}>`, ...shape.fields };
  const end = JSON.stringify({ type: "end_of_execution" });
  const [outcome] = await runForeign(`${JSON.stringify(line)}\n${end}\n`, { code: "1" });
  expect(outcome?.stdout).toMatch(shape.shown);
});

test("a result in many forms leaves no more files than the tool takes", async () => {
  const png = { type: "result", png: "iVBORw0KGgo=" };
  const more = { ...png, jpeg: "/9j/", extra: { "image/gif": "R0lG", "image/webp": "UklG" } };
  const lines = [...Array.from({ length: 63 }, () => png), more, { type: "end_of_execution" }];
  const whole = lines.map((line) => `${JSON.stringify(line)}\n`).join("");
  const [outcome] = await runForeign(whole, { code: "1" });
  expect(outcome?.record.pictures.length).toBe(64);
});

test("a context that the interpreter does not give within the limit is interrupted", async () => {
  const silent = createServer((socket) => socket.resume());
  const port = await listenOnLoopback(silent);
  const [outcome] = await runCells([{ code: "1", context: "a", timeout: 1 }], String(port));
  silent.close();
  expect(outcome?.exitCode).toBe(CELL_EXIT.late);
  expect(outcome?.record.note).toBe("the cell was interrupted at timeout_seconds");
});

test("without a server the program says so, and the tool names the template", async () => {
  const [outcome] = await runCells([{ code: "1" }], "1");
  expect(outcome?.exitCode).toBe(CELL_EXIT.noInterpreter);
  await using world = await startMcpWorld();
  const { fields } = await world.call("create_sandbox", {});
  const reply = await world.call("run_code", { sandbox_id: fields["sandbox_id"], code: "1" });
  expect(reply.isError).toBe(true);
  expect(reply.text).toMatch(
    /^failed_precondition: this sandbox has no code interpreter\. .*template="code-interpreter"/,
  );
});
