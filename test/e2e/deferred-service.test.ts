/** On a machine that is known to work a host is answered first; what fails then still ends the program. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { startProgram } from "../support/program.ts";
import { openRawStdio } from "../support/raw-stdio.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

test("a service that fails after the list was sent ends the program as ever", async () => {
  await using folder = await makeTempFolder();
  const words = ["stdio", "--home", folder.path, "--pool", "0"];
  const quiet = { SANDBOX_MCP_LOG_LEVEL: "silent" };
  await using first = startProgram(words, quiet);
  first.child.stdin?.end();
  expect([await first.exited(), first.stderr()]).toEqual([0, ""]);

  const database = new DatabaseSync(join(folder.path, "state.db"));
  database.exec("PRAGMA user_version = 1000000");
  database.close();

  await using second = startProgram(words, quiet);
  assert.ok(second.child.stdin);
  const raw = openRawStdio(second.child.stdin, second.stdout);
  await raw.initialize();
  const { tools } = await raw.request("tools/list");
  expect(tools).toHaveLength(23);
  expect(await second.exited()).toBe(78);
  expect(second.stderr()).toMatch(/^sandbox-mcp: database \S+ has version 1000000: .*\n$/);
});
