/** Blank, long and large cells, and the numbers of cells: each costs what it is worth. */

import { afterAll, beforeAll, expect, test } from "vitest";
import { evaluate } from "../../support/daemon/interpreter-modules.ts";
import {
  startInterpreterServer,
  textOf,
  type CellLine,
  type InterpreterServer,
} from "../../support/daemon/interpreter-server.ts";

let server: InterpreterServer;
beforeAll(async () => {
  server = await startInterpreterServer();
}, 30_000);
afterAll(async () => server[Symbol.asyncDispose]());

function numberOf(lines: readonly CellLine[]): unknown {
  return lines.find(({ type }) => type === "number_of_executions")?.["execution_count"];
}

test.for(["bash", "js"])(
  "%s: each cell counts once, and from 1 in a new kernel",
  async (language) => {
    const made = await server.call("POST", "/contexts", { language, cwd: "/" });
    const { id: context_id } = JSON.parse(made.text);
    const exit = language === "js" ? "process.exit(1)" : "exit 1";
    const numbers = [];
    for (const code of ["1", "(", "", exit, "1", "1"]) {
      numbers.push(numberOf(await server.run(code, { context_id })));
    }
    expect((await server.call("POST", `/contexts/${context_id}/restart`)).status).toBe(200);
    numbers.push(numberOf(await server.run("1", { context_id })));
    expect(numbers).toEqual([1, 2, 3, 4, 1, 2, 1]);
    await server.call("DELETE", `/contexts/${context_id}`);
  },
);

test.for([
  ["an error", "throw held()"],
  [
    "an error of its result",
    "({ [Symbol.for('nodejs.util.inspect.custom')]() { throw held(); } })",
  ],
  ["a result", "held()"],
])("%s of a JavaScript cell is not kept", async ([, cell = ""]) => {
  const language = "js";
  const held =
    "function held() { const error = new Error(); globalThis.held.weak = new WeakRef(error); return error; }";
  const collect =
    'require("v8").setFlagsFromString("--expose-gc"); require("vm").runInNewContext("gc")()';
  for (const code of [held, cell, collect]) await server.run(code, { language });
  expect(textOf(await server.run("held.weak.deref() === undefined", { language }), "result")).toBe(
    "true",
  );
});

test("the cell that nobody asked for counts nothing, however late it runs", async () => {
  const program = `
import asyncio, getpass, os
from kernel import Owner
from line_kernel import BashKernel

async def main():
    kernel, numbers = BashKernel(Owner(getpass.getuser()), "/"), []
    def note(line):
        numbers.extend(line[key] for key in line if key == "execution_count")
    await kernel.start()
    await kernel.execute(":", {}, note)
    await kernel.warm()
    await kernel.execute(":", {}, note)
    await kernel.stop()
    return numbers

print(json.dumps(asyncio.run(main())))`;
  expect(await evaluate(program)).toEqual([1, 2]);
});

test("a kernel that is ended for its first cell is not said to have used up the memory", async () => {
  const program = `
import asyncio, getpass
import server
from kernel import Owner
from line_kernel import BashKernel

async def main():
    kernel = BashKernel(Owner(getpass.getuser()), "/")
    kernel.FIRST_CELL = "sleep 100"
    await kernel.start()
    server.WARM_TIMEOUT_S = 0.1
    await server.warm_in_time(kernel)
    return [kernel.is_alive, kernel.death()]

print(json.dumps(asyncio.run(main())))`;
  expect(await evaluate(program)).toEqual([false, "the kernel did not answer within 0.1 s"]);
});

test.for([
  ["js", `${"\n".repeat(1_000_000)}console.log("end")`],
  ["bash", `${"\n".repeat(1_000_000)}echo end`],
  ["js", `/* ${"ä".repeat(10_000_000)} */ console.log("end")`],
  ["bash", `# ${"ä".repeat(10_000_000)}\necho end`],
])("a long cell is read at once: %s", async ([language = "", code = ""]) => {
  expect(textOf(await server.run(code, { language }), "stdout")).toBe("end\n");
});

test("a long cell of Python that has no magics is left as it is", async () => {
  const program = `
from kernel_shortcuts import is_python, without_blank_ends
cells = ["\\n \\n  x = '''\\n\\n'''\\n\\n", "await x", "\\n", "1", "%lsmagic", "!ls", "a = !ls", "x?", "("]
print(json.dumps([[is_python(cell) for cell in cells[1:]], [without_blank_ends(cell) for cell in cells[:4]]]))`;
  expect(await evaluate(program)).toEqual([
    [true, true, true, false, false, false, false, false],
    ["  x = '''\n\n'''\n", "await x\n", "\n", "1\n"],
  ]);
});

test("a form that is too large is named beside the text of its result", async () => {
  const program = `
from results import MAX_FIELD_CHARACTERS, result_line
picture = {"image/png": "x" * (MAX_FIELD_CHARACTERS + 1)}
bundles = [{"text/plain": "'a'", **picture}, {**picture, "text/plain": "a"}, picture]
print(json.dumps([result_line(bundle, True).get("text") for bundle in bundles]))`;
  const note = "[image/png is too large to be sent]";
  expect(await evaluate(program)).toEqual([`a\n${note}`, `a\n${note}`, note]);
});

test.for([
  ["a result", 'display({ "text/plain": "x".repeat(101_000_000) })', "result", /too large/],
  ["the name of an error", `#${"x".repeat(3_000_000)}`, "error", /x\n\[\.\.\.\]\nx/],
] as const)("%s that is too large costs no kernel", { timeout: 20_000 }, async (row) => {
  const [, code, type, text] = row;
  await server.run("var kept = 1", { language: "js" });
  const lines = await server.run(code, { language: "js" });
  expect(textOf(lines, type)).toMatch(text);
  expect(textOf(await server.run("kept", { language: "js" }), "result")).toBe("1");
});
