/** A watch under a storm: whoever plays its events back ends with the tree that is there. */

import { execFile } from "node:child_process";
import { mkdir, readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { runStorm } from "../../support/daemon/burst.ts";
import { startTestDaemon, type TestDaemon } from "../../support/daemon/envd.ts";
import { Playback } from "../../support/daemon/playback.ts";
import { tellCells } from "../../support/run/cells.ts";
import { IS_WHOLE_RUN } from "../../support/runtimes.ts";

const run = promisify(execFile);
const CHANGES = 10_000;
/** More of them within a minute end the watch. */
const KILLS = 5;
/** More changes than the kernel queues for a reader that does not read, and fewer files at the end. */
const OVERFLOW = `
const fs = require("node:fs");
for (let file = 0; file < 20_000; file += 1) fs.writeFileSync("file" + file, "");
for (let file = 0; file < 20_000; file += 2) fs.unlinkSync("file" + file);
for (const name of fs.readdirSync(".").slice(0, 5)) fs.rmSync(name, { recursive: true });`;
const FIRST_SEED = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
const SEEDS = Array.from({ length: IS_WHOLE_RUN ? 20 : 1 }, (_seed, index) => FIRST_SEED + index);

async function watchTree(daemon: TestDaemon) {
  const path = join(daemon.folder, "w");
  await mkdir(path);
  const { watcherId } = await daemon.files.createWatcher({ path, recursive: true });
  const playback = new Playback();
  return {
    path,
    there: async () => (await readdir(path, { recursive: true })).toSorted(),
    believed: async () => {
      const { events } = await daemon.files.getWatcherEvents({ watcherId });
      for (const event of events) playback.add(event);
      return [...playback.names].toSorted();
    },
  };
}

/** The process that reads the kernel's events for a daemon that this test started. */
async function findReader(): Promise<number> {
  const { stdout } = await run("pgrep", ["-f", "inotify\\.pl"]);
  for (const pid of stdout.trim().split("\n").map(Number)) {
    let ancestor = pid;
    while (ancestor > 1 && ancestor !== process.pid) ancestor = await parentOf(ancestor);
    if (ancestor === process.pid) return pid;
  }
  throw new Error(`no reader among ${stdout}`);
}

async function parentOf(pid: number): Promise<number> {
  const status = await readFile(`/proc/${pid}/status`, "utf8").catch(() => "");
  return Number(/^PPid:\t(\d+)$/m.exec(status)?.[1] ?? 0);
}

test.for(SEEDS)(
  "ten thousand quick changes in nested new folders lose no final state, seed %i",
  async (seed, context) => {
    await using daemon = await startTestDaemon();
    const { path, there, believed } = await watchTree(daemon);
    await runStorm(path, seed, CHANGES);
    const names = await there();
    await expect.poll(believed, { message: `FUZZ_SEED=${seed}`, timeout: 30_000 }).toEqual(names);
    expect(names.length).toBeGreaterThan(1_000);
    tellCells(context, CHANGES);
  },
);

test("what the kernel dropped for a reader that stood still is found again", async () => {
  await using daemon = await startTestDaemon();
  const { path, there, believed } = await watchTree(daemon);
  await runStorm(path, FIRST_SEED, 2_000);
  await expect.poll(believed, { timeout: 30_000 }).toEqual(await there());
  const reader = await findReader();
  process.kill(reader, "SIGSTOP");
  await run(process.execPath, ["-e", OVERFLOW], { cwd: path });
  process.kill(reader, "SIGCONT");
  await expect.poll(believed, { timeout: 60_000 }).toEqual(await there());
});

test("readers that are killed in a storm are followed by another, and nothing is lost", async () => {
  await using daemon = await startTestDaemon();
  const { path, there, believed } = await watchTree(daemon);
  const storm = runStorm(path, FIRST_SEED, CHANGES);
  await expect.poll(async () => (await believed()).length).toBeGreaterThan(100);
  for (let killed = 0, last = 0; killed < KILLS; killed += 1) {
    await expect.poll(findReader, { interval: 1 }).not.toBe(last);
    last = await findReader();
    process.kill(last, "SIGKILL");
  }
  await storm;
  await expect.poll(believed, { timeout: 30_000 }).toEqual(await there());
});
