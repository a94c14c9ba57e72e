/** Arguments as models send them: what stands for nothing is absent, a map is its pairs. */

import { expect, test } from "vitest";
import { z } from "../../../src/common/schema.ts";
import { acceptArguments, normalizeArguments } from "../../../src/mcp/arguments.ts";
import { createSandbox } from "../../../src/mcp/tools/create-sandbox.ts";
import { TOOLS } from "../../../src/mcp/tools/index.ts";
import { runProcess } from "../../../src/mcp/tools/run-process.ts";
import { watchPath } from "../../../src/mcp/tools/watch-path.ts";
import { writeFile } from "../../../src/mcp/tools/write-file.ts";

interface Row {
  readonly schema: z.ZodObject;
  readonly given: unknown;
  readonly kept: unknown;
}

const ROWS: readonly Row[] = [
  {
    schema: runProcess.input,
    given: { cmd: "x", args: [], cwd: "", user: null },
    kept: { cmd: "x" },
  },
  { schema: runProcess.input, given: { cmd: "x", wait_seconds: null }, kept: { cmd: "x" } },
  {
    schema: runProcess.input,
    given: { cmd: "x", args: ["", "a"] },
    kept: { cmd: "x", args: ["", "a"] },
  },
  {
    schema: runProcess.input,
    given: { cmd: "x", env: { A: "1", B: 2, C: true } },
    kept: {
      cmd: "x",
      env: [
        { name: "A", value: "1" },
        { name: "B", value: "2" },
        { name: "C", value: "true" },
      ],
    },
  },
  {
    schema: runProcess.input,
    given: { env: [{ name: "A", value: "" }] },
    kept: { env: [{ name: "A", value: "" }] },
  },
  {
    schema: createSandbox.input,
    given: { metadata: {}, allow_out: [] },
    kept: { metadata: [], allow_out: [] },
  },
  { schema: watchPath.input, given: { path: "a", watcher_id: "" }, kept: { path: "a" } },
  { schema: watchPath.input, given: { path: null, watcher_id: "w" }, kept: { watcher_id: "w" } },
  {
    schema: writeFile.input,
    given: { path: "", content: "", user: "" },
    kept: { path: "", content: "" },
  },
  { schema: writeFile.input, given: { content: null }, kept: { content: null } },
  {
    schema: writeFile.input,
    given: { unknown: null, constructor: "" },
    kept: { unknown: null, constructor: "" },
  },
  { schema: writeFile.input, given: undefined, kept: {} },
  { schema: writeFile.input, given: null, kept: {} },
  { schema: writeFile.input, given: [], kept: [] },
  { schema: writeFile.input, given: "text", kept: "text" },
];

test.for(ROWS)("$given is taken as $kept", ({ schema, given, kept }) => {
  expect(normalizeArguments(schema, given)).toEqual(kept);
});

test("a map with a value that is no text is refused where it stands", async () => {
  const schema = z.strictObject({ env: runProcess.input.shape.env });
  const outcome = await acceptArguments(schema)["~standard"].validate({ env: { A: { B: "c" } } });
  expect(outcome.issues?.[0]?.path).toEqual(["env", 0, "value"]);
});

test.for([2 ** 53, -(2 ** 60), 1e300])(
  "%d in a map is refused: its digits are not those that were written",
  async (value) => {
    const outcome = await acceptArguments(runProcess.input)["~standard"].validate({
      sandbox_id: "i1",
      cmd: "true",
      env: { ID: value },
    });
    expect(outcome.issues?.[0]?.path).toEqual(["env", 0, "value"]);
  },
);

test("no name of a map reaches a prototype", async () => {
  const given: unknown = JSON.parse('{"env":{"__proto__":"x"},"__proto__":{"cmd":"y"}}');
  const outcome = await acceptArguments(runProcess.input)["~standard"].validate(given);
  expect(JSON.stringify(outcome.issues)).toContain("__proto__");
});

test("every optional field of every tool may be null or empty", () => {
  const faults = TOOLS.flatMap(({ name, input }) =>
    Object.entries(input.shape)
      .filter(([, field]) => field.safeParse(undefined).success)
      .filter(([key]) =>
        [null, ""].some((nothing) => {
          const kept = normalizeArguments(input, { [key]: nothing });
          return Object.keys(Object(kept)).length > 0;
        }),
      )
      .map(([key]) => `${name}.${key}`),
  );
  expect(faults).toEqual([]);
});
