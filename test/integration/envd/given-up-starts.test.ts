/** Calls of Start that are over before their programs have begun, since the spawner was stopped. */

import { readdirSync } from "node:fs";
import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { collect, runScript } from "../../support/daemon/collect.ts";
import { startTestDaemon, type TestDaemon } from "../../support/daemon/envd.ts";
import { envelope } from "../../support/raw-call.ts";

const CALLS = 40;
/** Starts that were handed to the spawner. */
const MAX_BEGUN = 4;

async function start({ processes }: TestDaemon, script: string, signal: AbortSignal) {
  const request = { process: { cmd: "/bin/sh", args: ["-c", script] } };
  return collect(processes.start(request, { signal }));
}

/** A call at the level of bytes: a client of Connect would end it at the deadline by itself. */
async function startRaw(daemon: TestDaemon, script: string, timeoutMs: number): Promise<string> {
  const { text } = await daemon.http("/process.Process/Start", {
    method: "POST",
    headers: {
      "content-type": "application/connect+json",
      "connect-protocol-version": "1",
      "connect-timeout-ms": `${timeoutMs}`,
    },
    body: envelope(JSON.stringify({ process: { cmd: "/bin/sh", args: ["-c", script] } })),
  });
  return text;
}

interface Stopped extends AsyncDisposable {
  readonly daemon: TestDaemon;
  /** A program that leaves a note with its name and goes on. */
  script(name: string): string;
  notes(): readonly string[];
  /** Lets the spawner go on; resolves when it has obeyed all that was handed to it. */
  goOn(): Promise<void>;
}

async function startStopped(): Promise<Stopped> {
  const daemon = await startTestDaemon();
  const notes = join(daemon.folder, "notes");
  await mkdir(notes);
  const spawner = Number((await runScript(daemon.processes, "echo $PPID")).stdout);
  process.kill(spawner, "SIGSTOP");
  return {
    daemon,
    script: (name) => `touch ${notes}/${name}; exec sleep 60`,
    notes: () => readdirSync(notes),
    async goOn() {
      process.kill(spawner, "SIGCONT");
      expect((await runScript(daemon.processes, "echo on")).stdout).toBe("on\n");
    },
    [Symbol.asyncDispose]: async () => daemon[Symbol.asyncDispose](),
  };
}

test("a program whose deadline passes before it has begun does not run", async () => {
  await using stopped = await startStopped();
  const { daemon } = stopped;
  const calls = Array.from({ length: CALLS }, async (_, index) =>
    startRaw(daemon, stopped.script(`${index}`), 300),
  );
  for (const text of await Promise.all(calls)) expect(text).toContain("context deadline exceeded");
  expect((await daemon.processes.list({})).processes).toEqual([]);
  await stopped.goOn();
  await expect.poll(async () => (await daemon.processes.list({})).processes).toEqual([]);
  expect(stopped.notes().length).toBeLessThanOrEqual(MAX_BEGUN);
});

test("a start that waits while its client leaves is dropped, and what began is listed", async () => {
  await using stopped = await startStopped();
  const { daemon } = stopped;
  const leaving = new AbortController();
  const calls = Array.from({ length: CALLS }, async (_, index) =>
    start(daemon, stopped.script(`${index}`), leaving.signal).catch(() => "left"),
  );
  // The daemon has all of them once it answers a later call, and has seen them end at another one.
  expect(await startRaw(daemon, stopped.script("later"), 300)).toContain(
    "context deadline exceeded",
  );
  leaving.abort();
  expect(await Promise.all(calls)).toEqual(Array(CALLS).fill("left"));
  expect(await startRaw(daemon, stopped.script("last"), 300)).toContain(
    "context deadline exceeded",
  );
  await stopped.goOn();
  const { processes } = await daemon.processes.list({});
  expect(processes.length).toBeLessThanOrEqual(MAX_BEGUN);
  await expect.poll(() => stopped.notes().length).toBe(processes.length);
});
