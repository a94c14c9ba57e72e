/** First use on a Linux without an OCI runtime: a working server whose tools say what is missing. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { once } from "node:events";
import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { openRawStdio } from "../support/mcp/raw-stdio.ts";
import { PROGRAM } from "../support/program.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

/** In a mount namespace of its own, what is no program stands where each runtime was. */
const WITHOUT_RUNTIMES = [
  "for runtime in crun runc runsc; do",
  "for folder in /usr/local/sbin /usr/local/bin /usr/sbin /usr/bin; do",
  '[ ! -e "$folder/$runtime" ] || mount --bind /dev/null "$folder/$runtime" || exit 1',
  'done; done; exec "$@"',
].join("\n");

function startWithoutRuntimes(words: readonly string[]) {
  const program = ["sh", "-c", WITHOUT_RUNTIMES, "sh", process.execPath, PROGRAM, ...words];
  const child = spawn("unshare", ["--mount", ...program], {
    stdio: ["pipe", "pipe", "pipe"],
    env: { PATH: process.env["PATH"] ?? "", SANDBOX_MCP_LOG_LEVEL: "silent" },
  });
  return { child, errors: text(child.stderr), exit: once(child, "exit") };
}

/** The packages are what set-up installs. */
const MISSING =
  "this machine cannot isolate: runtime: auto[.:] Tell the user the ways on: here, " +
  "apt-get update && apt-get install -y runc crun mmdebstrap [a-z0-9 -]+ uidmap; or elsewhere: set E2B_API_KEY to the key of an " +
  "E2B-compatible service, or run `npx -y sandbox-mcp serve` on a Linux machine or VM and set " +
  "E2B_API_URL, E2B_SANDBOX_URL and E2B_API_KEY to what it prints[.]";

test("every tool is listed and names the ways on; the end tells it by its exit code", async () => {
  await using home = await makeTempFolder();
  const { child, errors, exit } = startWithoutRuntimes(["stdio", "--home", home.path]);
  const raw = openRawStdio(child.stdin, child.stdout);
  await raw.initialize();
  const { tools } = await raw.request("tools/list");
  assert.ok(Array.isArray(tools));
  expect(tools).toHaveLength(23);
  const call = { name: "create_sandbox", arguments: {} };
  expect(await raw.request("tools/call", call)).toEqual({
    isError: true,
    content: [{ type: "text", text: expect.stringMatching(`^failed_precondition: ${MISSING}$`) }],
  });
  expect(await raw.request("resources/list")).toEqual({ resources: [] });
  child.stdin.end();
  const [code] = await exit;
  expect([code, await errors]).toEqual([69, expect.stringMatching(`^sandbox-mcp: ${MISSING}\\n$`)]);
  expect(raw.strays).toEqual([]);
});

test("serve says it in one line and does not start", async () => {
  await using home = await makeTempFolder();
  const { errors, exit } = startWithoutRuntimes(["serve", "--port", "0", "--home", home.path]);
  const [code] = await exit;
  expect([code, await errors]).toEqual([
    69,
    expect.stringMatching(
      /^sandbox-mcp: this machine cannot isolate: runtime: auto: apt-get .*\n$/,
    ),
  ]);
});
