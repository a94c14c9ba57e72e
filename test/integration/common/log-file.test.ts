/** A log file that another program rotates while it is written to. */

import { execFile } from "node:child_process";
import { readdir, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { makeTempFolder } from "../../support/temp-folder.ts";

const LOG = resolve(import.meta.dirname, "../../../src/common/log.ts");

/** Logs one line before, and one after each change that is made to the file. */
const SCRIPT = `
import { copyFileSync, renameSync, truncateSync } from "node:fs";
import { createLog } from ${JSON.stringify(LOG)};
const [, file] = process.argv;
const log = createLog({ level: "info", file });
log.info("before");
copyFileSync(file, file + ".copy");
truncateSync(file);
log.info("truncated");
renameSync(file, file + ".moved");
log.info("moved");
`;

async function messagesOf(path: string): Promise<unknown[]> {
  const lines = (await readFile(path, "utf8")).trimEnd().split("\n");
  return lines.map((line) => Reflect.get(JSON.parse(line), "msg"));
}

test("lines after a truncation start the file anew, and those after a move follow it", async () => {
  await using folder = await makeTempFolder();
  const path = join(folder.path, "log");
  await promisify(execFile)(process.execPath, ["--input-type=module", "--eval", SCRIPT, path]);
  expect((await readdir(folder.path)).toSorted()).toEqual(["log.copy", "log.moved"]);
  expect(await messagesOf(`${path}.copy`)).toEqual(["before"]);
  expect(await messagesOf(`${path}.moved`)).toEqual(["truncated", "moved"]);
});
