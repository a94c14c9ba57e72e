/** What a service that was killed finds again, what it ends late, and what snapshots stand on. */

import { randomBytes } from "node:crypto";
import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { createInterface } from "node:readline";
import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { takeCensus } from "../support/census.ts";
import { DEEP_FOLDER, openTestHome } from "../support/home.ts";
import { startProgram } from "../support/program.ts";

const KEY = `e2b_${randomBytes(20).toString("hex")}`;
const SHORT_LIFE_MS = 2000;
/** What a client may have to wait for a service that was started anew. */
const MAX_START_MS = 5000;
const SNAPSHOT_PATTERN = /^[0-9a-f-]{36}$/;

/** A home, deep in folders, whose end also removes what a failed test left in it. */
async function openServiceHome() {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await openTestHome(DEEP_FOLDER));
  stack.defer(async () => {
    await startProgram(["gc", "--home", path]).exited();
  });
  const programs = stack.use(new AsyncDisposableStack());
  const owned = stack.move();
  return { path, programs, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

type ServiceHome = Awaited<ReturnType<typeof openServiceHome>>;

/** `serve` on a home that outlives it. */
async function startService(home: ServiceHome) {
  const flags = ["serve", "--home", home.path, "--port", "0"];
  const program = home.programs.use(startProgram(flags, { SANDBOX_MCP_API_KEY: KEY }));
  for await (const line of createInterface({ input: program.stdout })) {
    const url = /^listening on (http\S+)$/.exec(line)?.[1];
    if (url === undefined) continue;
    return { program, options: { apiKey: KEY, apiUrl: url, sandboxUrl: url } };
  }
  throw new Error(`serve ended before it listened:\n${program.stderr()}`);
}

test("a service that was killed finds its sandboxes again, each in its state", async () => {
  await using home = await openServiceHome();
  const first = await startService(home);
  const running = await Sandbox.create("base", { ...first.options, envs: { NAME: "value" } });
  const paused = await Sandbox.create("base", first.options);
  const short = await Sandbox.create("base", { ...first.options, timeoutMs: SHORT_LIFE_MS });
  await running.files.write("kept.txt", "kept");
  const command = await running.commands.run("exec sleep 600", { background: true });
  await paused.pause();
  const halted = await Sandbox.create("base", first.options);
  await halted.files.write("kept.txt", "halted");
  await halted.pause({ keepMemory: false });
  const { endAt } = await Sandbox.getInfo(running.sandboxId, first.options);
  first.program.child.kill("SIGKILL");
  const [stream] = await Promise.allSettled([command.wait(), first.program.exited()]);
  expect(stream.status).toBe("rejected");

  const restartedMs = performance.now();
  const { program, options } = await startService(home);
  expect(await Sandbox.getInfo(running.sandboxId, options)).toMatchObject({ endAt });
  expect(performance.now() - restartedMs).toBeLessThan(MAX_START_MS);
  const found = await Sandbox.connect(running.sandboxId, options);
  expect(await found.files.read("kept.txt")).toBe("kept");
  expect((await found.commands.list()).map(({ pid }) => pid)).toContain(command.pid);
  expect((await found.commands.run("echo $NAME")).stdout).toBe("value\n");
  expect(await Sandbox.getInfo(paused.sandboxId, options)).toMatchObject({ state: "paused" });
  expect(await Sandbox.getInfo(halted.sandboxId, options)).toMatchObject({ state: "paused" });
  const booted = await Sandbox.connect(halted.sandboxId, options);
  expect(await booted.files.read("kept.txt")).toBe("halted");
  const resumed = await Sandbox.connect(paused.sandboxId, options);
  expect(await resumed.isRunning()).toBe(true);
  await expect
    .poll(async () => Sandbox.getInfo(short.sandboxId, options).catch(String), {
      timeout: SHORT_LIFE_MS * 2,
    })
    .toMatch(/not found/);
  await Promise.all([found.kill(), resumed.kill(), booted.kill()]);
  await program[Symbol.asyncDispose]();
  const { processes, mounts, loopDevices, sockets } = await takeCensus(home.path);
  expect({ processes, mounts, loopDevices, sockets }).toEqual({
    processes: [],
    mounts: [],
    loopDevices: [],
    sockets: [],
  });
});

test("a snapshot stays whole while another stands on it, and its layer goes with the last", async () => {
  await using home = await openServiceHome();
  const { program, options } = await startService(home);
  const layers = async () =>
    (await readdir(join(home.path, "layers"))).filter((name) => SNAPSHOT_PATTERN.test(name));
  const origin = await Sandbox.create("base", options);
  await origin.files.write("first.txt", "first");
  const first = await origin.createSnapshot({ name: "web:1" });
  expect(first).toMatchObject({ snapshotId: "local/web:1" });
  await origin.kill();
  const child = await Sandbox.create("web:1", options);
  await child.files.write("second.txt", "second");
  const second = await child.createSnapshot();
  await expect(Sandbox.deleteSnapshot(first.snapshotId, options)).rejects.toThrow(/using it/);
  await child.kill();
  expect(await Sandbox.deleteSnapshot(first.snapshotId, options)).toBe(true);
  expect(await layers()).toHaveLength(2);
  const grandchild = await Sandbox.create(second.snapshotId, options);
  const texts = await Promise.all(
    ["first.txt", "second.txt"].map((name) => grandchild.files.read(name)),
  );
  expect(texts).toEqual(["first", "second"]);
  await grandchild.kill();
  expect(await Sandbox.deleteSnapshot(second.snapshotId, options)).toBe(true);
  expect(await Sandbox.deleteSnapshot(second.snapshotId, options)).toBe(false);
  // Its files go in the background.
  await expect.poll(layers).toEqual([]);
  expect(await Sandbox.listSnapshots(options).nextItems()).toEqual([]);
  await program[Symbol.asyncDispose]();
});
