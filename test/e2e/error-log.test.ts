/** A failure that nobody foresaw leaves its message and its stack in the log. */

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "../../src/common/schema.ts";
import { PROGRAM, startProgram } from "../support/program.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const lineSchema = z.object({
  level: z.literal(50),
  msg: z.literal("unexpected failure"),
  err: z.object({ type: z.string(), message: z.string(), stack: z.string() }),
});

test("E59 the log of a command that failed unforeseen has message and stack", async () => {
  await using folder = await makeTempFolder();
  const fault = join(folder.path, "fault.mjs");
  // What only the command itself calls, so that nothing but the command fails.
  await writeFile(
    fault,
    `const { on } = process;
process.on = function (name, ...rest) {
  if (name === "SIGTERM") throw new TypeError("forced failure");
  return on.call(this, name, ...rest);
};\n`,
  );
  const words = ["serve", "--home", join(folder.path, "home"), "--port", "0"];
  const command = [process.execPath, `--import=${fault}`, PROGRAM] as const;
  await using program = startProgram(words, {}, command);
  expect(await program.exited()).toBe(70);
  const [line = ""] = program.stderr().split("\n");
  const { err } = lineSchema.parse(JSON.parse(line));
  expect(err).toMatchObject({ type: "TypeError", message: "forced failure" });
  expect(err.stack).toMatch(/^TypeError: forced failure\n {4}at /);
});
