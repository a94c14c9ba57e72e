/** The log of a sandbox on a disk that fails, and after it had to leave memory. */

import { readdir, readlink, rm, writeFile, mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { SandboxLogs } from "../../../src/output/logs.ts";
import { makeSpoolDisk, type SpoolDisk } from "../../support/daemon/spool-disk.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { withoutMark } from "../../support/marks.ts";

/** More than fit in memory. */
const OTHERS = 130;

function startLogs(disk: SpoolDisk, spools = disk.start()) {
  const clock = createFakeClock(disk.nowMs);
  const logs = new SandboxLogs({ clock, spools, log: createSilentLog() });
  logs.open("i1");
  const out = (text: string, sandboxId = "i1") =>
    logs.output(sandboxId, "p_1", { stream: "stdout", bytes: Buffer.from(text) });
  const read = async (from?: number) => withoutMark((await logs.read("i1", from)) ?? "no log");
  return { clock, logs, out, read };
}

async function openFiles(root: string): Promise<number> {
  const links = await Promise.allSettled(
    (await readdir("/proc/self/fd")).map((fd) => readlink(`/proc/self/fd/${fd}`)),
  );
  return links.filter((link) => link.status === "fulfilled" && link.value.startsWith(root)).length;
}

test("a log that had to leave memory goes on in its file, with no text lost", async () => {
  await using disk = await makeSpoolDisk();
  const { logs, out, read } = startLogs(disk);
  await using _ = logs;
  out("first\n");
  for (let index = 0; index < OTHERS; index += 1) logs.open(`i9${index}`);
  expect(await read()).toBe("--- log\n--- p_1 stdout\nfirst\n--- end\n");
  // A process of it still runs.
  out("second\n");
  expect(await read()).toBe("--- log\n--- p_1 stdout\nfirst\n--- p_1 stdout\nsecond\n--- end\n");
  expect(await readdir(join(disk.root, "i1"))).toHaveLength(1);
});

test("a log that leaves memory and is needed at once is one log", async () => {
  await using disk = await makeSpoolDisk();
  const { logs, out, read } = startLogs(disk);
  await using _ = logs;
  for (let round = 0; round < 5; round += 1) {
    out(`round ${round}\n`);
    for (let index = 0; index < OTHERS; index += 1) logs.open(`i9${round}x${index}`);
  }
  out("last\n");
  const text = await read();
  expect(text.match(/^(?:round [0-9]|last)$/gm)).toEqual([
    ...Array.from({ length: 5 }, (_unused, round) => `round ${round}`),
    "last",
  ]);
});

test("text that a disk does not take stays in memory and is written later", async () => {
  await using disk = await makeSpoolDisk();
  await mkdir(disk.root, { recursive: true });
  // No folder can be made here.
  const obstacle = join(disk.root, "i1");
  await writeFile(obstacle, "");
  const { clock, logs, out, read } = startLogs(disk);
  await using _ = logs;
  out("first\n");
  expect(await read()).toBe("--- log\n--- p_1 stdout\nfirst\n--- end\n");
  out("second\n");
  const whole = "--- log\n--- p_1 stdout\nfirst\nsecond\n--- end\n";
  expect(await read()).toBe(whole);
  await rm(obstacle);
  await clock.advance(5_000);
  expect(await read()).toBe(whole);
  await logs[Symbol.asyncDispose]();
  await using other = startLogs(disk).logs;
  expect(withoutMark((await other.read("i1")) ?? "")).toBe(whole);
});

test("what memory cannot hold while the disk takes nothing has a mark in its place", async () => {
  await using disk = await makeSpoolDisk();
  await mkdir(disk.root, { recursive: true });
  await writeFile(join(disk.root, "i1"), "");
  const { logs, out, read } = startLogs(disk);
  await using _ = logs;
  out("first\n");
  await read();
  for (let index = 0; index < 10_000; index += 1) out(`${"x".repeat(50)} ${index}\n`);
  const oldest = await read(0);
  expect(oldest).toMatch(/^--- log\n--- \[… 2[0-9]+ KB dropped here; get_process_output reads/);
  expect(await read()).toMatch(/\nx+ 9999\n--- end\n$/);
});

test("text that is lost on the disk is told by this server and by the next one", async () => {
  await using disk = await makeSpoolDisk();
  const { clock, logs, out, read } = startLogs(disk);
  await using _ = logs;
  out(`${"x".repeat(2_000)}\n`);
  await read();
  await expect.poll(() => openFiles(disk.root), { timeout: 20_000 }).toBe(0);
  await rm(join(disk.root, "i1"), { recursive: true });
  out("second\n");
  expect(await read()).toMatch(/^--- log\n--- \[… 2 KB dropped here[^\n]*\]\nsecond\n--- end\n$/);
  await clock.advance(5_000);
  const later = await read();
  expect(later).toMatch(/^--- log\n--- \[… 2 KB dropped here[^\n]*\]\nsecond\n--- end\n$/);
  await logs[Symbol.asyncDispose]();
  await using other = startLogs(disk).logs;
  expect(withoutMark((await other.read("i1")) ?? "")).toBe(later);
});

test("a log says that other servers have logs of the same sandbox", async () => {
  await using disk = await makeSpoolDisk();
  await using stack = new AsyncDisposableStack();
  const [first, second] = [startLogs(disk), startLogs(disk)];
  for (const { logs } of [first, second]) stack.use(logs);
  first.out("of the first\n");
  expect(await first.read()).toBe("--- log\n--- p_1 stdout\nof the first\n--- end\n");
  second.out("of the second\n");
  const note = String.raw`--- \[… other servers use this sandbox, too; [^\n]+\]`;
  expect(await second.read()).toMatch(
    new RegExp(`^--- log\n--- p_1 stdout\nof the second\n${note}\n--- end\n$`),
  );
  expect(await first.read()).toMatch(new RegExp(`\nof the first\n${note}\n--- end\n$`));
});

test.each(["found", "read"])(
  "a log that another server takes over once it is %s is shown whole",
  async (moment) => {
    await using disk = await makeSpoolDisk();
    const pastSpools = disk.start();
    const past = startLogs(disk, pastSpools);
    past.out("of the past\n");
    await past.logs[Symbol.asyncDispose]();
    await pastSpools[Symbol.asyncDispose]();
    await using owner = startLogs(disk).logs;
    let looks = 0;
    const spools = disk.start();
    const reader = startLogs(disk, {
      ...spools,
      async findAll(key) {
        looks += 1;
        if (moment === "read" && looks === 2) await takeOver();
        const found = await spools.findAll(key);
        if (moment === "found" && looks === 1) await takeOver();
        return found;
      },
    });
    await using _ = reader.logs;
    async function takeOver(): Promise<void> {
      owner.output("i1", "p_2", { stream: "stdout", bytes: Buffer.from("of the owner\n") });
      await owner.read("i1");
    }
    const whole = "--- log\n--- p_1 stdout\nof the past\n--- p_2 stdout\nof the owner\n--- end\n";
    expect(await reader.read()).toBe(whole);
  },
);
