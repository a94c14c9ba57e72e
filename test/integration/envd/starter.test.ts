/** The starter runs a program in the same way with, without and with unusable compiled code. */

import { execFile } from "node:child_process";
import { readFile, stat, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { makeTempFolder } from "../../support/temp-folder.ts";

const STARTER = resolve(import.meta.dirname, "../../../dist/envd-starter.cjs");
/** Tells where it is, that it can load modules, and by which function; the last one is compiled late. */
const PROGRAM = `
function late(text) { return text.split("").reverse().join(""); }
module.exports = 1;
console.log(JSON.stringify([__dirname, require("node:path").basename(__filename), late("cba")]));
`;

test("a program runs whatever is known of it", async () => {
  await using folder = await makeTempFolder();
  const program = join(folder.path, "program.cjs");
  const compiled = join(folder.path, "program.compiled");
  await writeFile(program, PROGRAM);
  const run = async (...words: string[]) => {
    const options = { cwd: "/" };
    const all = [STARTER, program, compiled, ...words];
    const { stdout, stderr } = await promisify(execFile)(process.execPath, all, options);
    expect(stderr).toBe("");
    return JSON.parse(stdout);
  };
  const expected = [folder.path, "program.cjs", "abc"];
  expect(await run()).toEqual(expected);
  await expect(stat(compiled)).rejects.toMatchObject({ code: "ENOENT" });
  // It then has nothing of what lies beside it.
  expect(await run("keep")).toEqual(["/", "program.cjs", "abc"]);
  const code = await readFile(compiled);
  expect(code.length).toBeGreaterThan(0);
  expect(await run()).toEqual(expected);
  expect(await readFile(compiled)).toEqual(code);
  for (const bad of ["", "garbage", code.subarray(0, code.length / 2), Buffer.alloc(1_000)]) {
    await writeFile(compiled, bad);
    expect(await run()).toEqual(expected);
  }
});
