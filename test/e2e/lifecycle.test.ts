/** What outlives a fork, a pause without memory and a killed service, on real containers. */

import assert from "node:assert/strict";
import { Sandbox, Volume, type SandboxOpts } from "e2b";
import { afterAll, beforeAll, expect, test } from "vitest";
import { takeCensus, type Census } from "../support/census.ts";
import { hasSetId, isGvisor } from "../support/level.ts";
import { startServe, type TestServe } from "../support/serve.ts";

/** With and without sudo. */
const AS_ROOT = { user: "root" } as const;

let before: Census;
let serve: TestServe;
let options: SandboxOpts;

beforeAll(async () => {
  before = await takeCensus();
  serve = await startServe();
  options = { apiKey: serve.apiKey, apiUrl: serve.url, sandboxUrl: serve.url };
});

afterAll(async () => {
  await serve[Symbol.asyncDispose]();
  assert.deepEqual(await takeCensus(serve.home), before);
});

test("forks have the files of the source at that moment, and its processes if memory is copied", async () => {
  const source = await Sandbox.create("base", { ...options, metadata: { kind: "source" } });
  await source.files.write("/home/user/note.txt", "before");
  await source.commands.run("exec sleep 600", { background: true });
  const forks = await source.fork({ count: 2, timeoutMs: 120_000 });
  await source.files.write("/home/user/note.txt", "after");
  for (const sandbox of forks) {
    assert(sandbox instanceof Sandbox);
    expect(await sandbox.files.read("/home/user/note.txt")).toBe("before");
    expect(await sandbox.commands.list()).toHaveLength(isGvisor ? 1 : 0);
    expect(await sandbox.getInfo()).toMatchObject({ metadata: { kind: "source" } });
    await sandbox.files.write("/home/user/own.txt", sandbox.sandboxId);
  }
  expect(await source.files.exists("/home/user/own.txt")).toBe(false);
  expect(await source.commands.list()).toHaveLength(1);
  await source.kill();
  await Promise.all(forks.flatMap((fork) => (fork instanceof Sandbox ? fork.kill() : [])));
});

test("a pause without memory keeps files, owners and removals, and nothing that ran", async () => {
  const sandbox = await Sandbox.create("base", options);
  await sandbox.commands.run("echo kept > kept.txt; echo x > /tmp/x");
  await sandbox.commands.run("rm /etc/debian_version", AS_ROOT);
  await sandbox.commands.run("exec sleep 600", { background: true });
  const look = "whoami; pwd; cat kept.txt; stat -c %U kept.txt; ls /etc/debian_version";
  const boot = async () => (await sandbox.commands.run("echo $E2B_BOOT_ID")).stdout;
  const first = await boot();
  for (const round of [1, 2]) {
    await sandbox.pause({ keepMemory: false });
    await sandbox.connect({ timeoutMs: 120_000 });
    const result = await sandbox.commands.run(`${look} 2>/dev/null || true`);
    expect(result.stdout, `round ${round}`).toBe("user\n/home/user\nkept\nuser\n");
    expect(await sandbox.commands.list()).toEqual([]);
  }
  expect(await boot()).not.toBe(first);
  await sandbox.kill();
});

test("a folder that became a link does not boot, and can be killed", async () => {
  const sandbox = await Sandbox.create("base", options);
  await sandbox.commands.run("mv /mnt /mnt-moved && ln -s /etc /mnt", AS_ROOT);
  await sandbox.pause({ keepMemory: false });
  await expect(sandbox.connect()).rejects.toThrow("/mnt of the template is not a real folder");
  expect(await Sandbox.getInfo(sandbox.sandboxId, options)).toMatchObject({ state: "paused" });
  await sandbox.kill();
});

test("a volume is shared by sandboxes, outlives them and keeps its owners", async () => {
  const volume = await Volume.create("shared", options);
  const withVolume = { ...options, volumeMounts: { "/mnt/deep/data": volume } };
  const first = await Sandbox.create("base", withVolume);
  const second = await Sandbox.create("base", withVolume);
  await first.commands.run("echo hello > /mnt/deep/data/mine");
  await first.commands.run("cd /mnt/deep/data; cp /bin/true theirs; chmod 4755 theirs", AS_ROOT);
  const look = "cd /mnt/deep/data; cat mine; stat -c %U:%G mine theirs";
  const expected = "hello\nuser:user\nroot:root\n";
  expect((await second.commands.run(look)).stdout).toBe(expected);
  await second.pause({ keepMemory: false });
  await second.connect();
  expect((await second.commands.run(look)).stdout).toBe(expected);
  await Promise.all([first.kill(), second.kill()]);
  const third = await Sandbox.create("base", withVolume);
  expect((await third.commands.run(look)).stdout).toBe(expected);
  // A runtime without set-id programs shows neither.
  const shown = hasSetId ? /nosuid/ : / 9p /;
  expect((await third.commands.run("cat /proc/mounts | grep deep")).stdout).toMatch(
    isGvisor ? shown : /nosuid.*nodev|nodev.*nosuid/,
  );
  await third.kill();
  expect(await Volume.destroy(volume.volumeId, options)).toBe(true);
});

test("metrics tell what a sandbox uses", async () => {
  const sandbox = await Sandbox.create("base", options);
  await sandbox.commands.run("dd if=/dev/zero of=big bs=1M count=50 status=none");
  const busy = await sandbox.commands.run("while :; do :; done", { background: true });
  const newest = async () => (await sandbox.getMetrics()).at(-1);
  await expect
    .poll(async () => (await newest())?.cpuUsedPct, { timeout: 15_000 })
    .toBeGreaterThan(5);
  expect(await newest()).toMatchObject({ cpuCount: 2, memTotal: 536_870_912 });
  const { diskUsed = 0, diskTotal = 0, memUsed = 0 } = (await newest()) ?? {};
  expect(diskUsed).toBeGreaterThan(50 * 1024 * 1024);
  expect(diskTotal).toBeGreaterThan(1024 ** 3);
  expect(memUsed).toBeGreaterThan(1024 * 1024);
  await busy.kill();
  await sandbox.kill();
});
