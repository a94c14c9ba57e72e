/** A step of a build that a signal ends has failed, whatever the signal. */

import { execFile } from "node:child_process";
import { connect } from "node:net";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { openDaemonClient } from "../../src/client/daemon-client.ts";
import { runStep } from "../../src/sandboxes/template-builds/run-step.ts";
import { startTestDaemon } from "../support/daemon/envd.ts";

async function run(command: string, fromDockerfile = false) {
  await using daemon = await startTestDaemon();
  await using client = openDaemonClient({
    sandboxId: "i1",
    token: undefined,
    dial: async () => connect(daemon.publicSocket),
  });
  const output: Uint8Array[] = [];
  const lines = {
    write: (_stream: string, bytes: Uint8Array) => void output.push(bytes),
    end: () => undefined,
  };
  const signal = AbortSignal.timeout(10_000);
  const io = { daemon: client, signal, lines, findFiles: async () => undefined, fromDockerfile };
  const state = { user: "root", workdir: "/", environment: {} };
  await runStep({ type: "RUN", args: [command], filesHash: "", force: false }, state, io);
  return Buffer.concat(output).toString();
}

test.for([
  { command: "kill -TERM $$", code: 143 },
  { command: "kill -KILL $$", code: 137 },
  { command: "kill -34 $$", code: 162 },
  { command: "exec bash -c 'kill -64 $$'", code: 192 },
  { command: "exit 3", code: 3 },
])("$command → exit code $code", async ({ command, code }) => {
  await expect(run(command)).rejects.toThrow(
    `command ${JSON.stringify(command)} failed with exit code ${code}`,
  );
});

// What is left runs on for longer than the limit of `run`.
test.for([
  "sleep 15 & echo done",
  "sleep 15 >&2 & sleep 15 2>/dev/null & echo done",
  "(trap '' TERM; sleep 15) & echo done",
  "(exec 3>&1 >/dev/null 2>&1; sleep 15) & echo done",
])("a step ends with its command, whatever runs in the background: %s", async (command) => {
  expect(await run(command)).toBe("done\n");
  expect(await run(command, true)).toBe("done\n");
});

test("a step has all output of its command, and its code, whatever runs in the background", async () => {
  const output = await run("sleep 15 & seq 200000 >&2; seq 200000; printf end", true);
  expect(output.length).toBe(2 * 1_288_895 + 3);
  await expect(run("sleep 15 & exit 7")).rejects.toThrow("failed with exit code 7");
});

test("a step may print its own processes", async () => {
  const script = "tr '\\0' '\\n' < /proc/$PPID/cmdline | tail -n 3; exit 0";
  expect(await run(script, true)).toBe(`/bin/sh\n-c\n${script}\n`);
});

test("a step finds its shell as if nothing was around it", async () => {
  const script = 'echo "$0 $# $SHLVL"; shopt -q login_shell && echo login; cat; exit 0';
  expect(await run(script)).toBe("/bin/bash 0 1\nlogin\n");
});

test("a command of a Dockerfile is for /bin/sh, which is no login shell", async () => {
  const script = 'echo "$0 $# ${BASH_VERSION:+bash} $-"; env | grep -c ^SHLVL; exit 0';
  const plain = await promisify(execFile)("/bin/sh", ["-c", script], { env: {} });
  expect(await run(script, true)).toBe(plain.stdout);
});
