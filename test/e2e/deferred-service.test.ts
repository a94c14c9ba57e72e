/** On a machine that is known to work a host is answered first; what fails then still ends the program. */

import assert from "node:assert/strict";
import { join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { expect, test } from "vitest";
import { openRawStdio } from "../support/mcp/raw-stdio.ts";
import { startProgram } from "../support/program.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const QUIET = { SANDBOX_MCP_LOG_LEVEL: "silent" };
const FAULT = /^sandbox-mcp: database \S+ has version 1000000: .*\n$/;

/** The words of a server on a machine that is known to work, in a home whose database is not for it. */
async function prepare(home: string): Promise<string[]> {
  const words = ["stdio", "--home", home, "--pool", "0"];
  await using first = startProgram(words, QUIET);
  first.child.stdin?.end();
  expect([await first.exited(), first.stderr()]).toEqual([0, ""]);

  const database = new DatabaseSync(join(home, "state.db"));
  database.exec("PRAGMA user_version = 1000000");
  database.close();
  return words;
}

test("a service that fails after the list was sent ends the program as ever", async () => {
  await using folder = await makeTempFolder();
  await using second = startProgram(await prepare(folder.path), QUIET);
  assert.ok(second.child.stdin);
  const raw = openRawStdio(second.child.stdin, second.stdout);
  await raw.initialize();
  const { tools } = await raw.request("tools/list");
  expect(tools).toHaveLength(23);
  expect(await second.exited()).toBe(78);
  expect(second.stderr()).toMatch(FAULT);
});

test.for([
  { name: "with the list", methods: ["tools/list", "tools/call"] },
  { name: "without the list", methods: ["tools/call"] },
])(
  "a call that was sent at once, $name, is told what the service failed by",
  async ({ methods }) => {
    await using folder = await makeTempFolder();
    await using program = startProgram(await prepare(folder.path), QUIET);
    assert.ok(program.child.stdin);
    const raw = openRawStdio(program.child.stdin, program.stdout);
    const call = { name: "create_sandbox", arguments: {} };
    const shaken = raw.initialize();
    const requests = methods.map(async (method) =>
      raw.request(method, method === "tools/call" ? call : {}),
    );
    await shaken;
    expect((await Promise.all(requests)).at(-1)).toMatchObject({
      isError: true,
      content: [{ text: expect.stringMatching(/: database \(path\) has version 1000000\. /) }],
    });
    expect(await program.exited()).toBe(78);
    expect(program.stderr()).toMatch(FAULT);
  },
);
