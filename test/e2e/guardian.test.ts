/** A service that was killed leaves no sandbox: its guardian ends each one by its rule, then itself. */

import assert from "node:assert/strict";
import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { Sandbox } from "e2b";
import { expect, test } from "vitest";
import { takeCensus } from "../support/census.ts";
import { openTestHome } from "../support/home.ts";
import { openOrdinaryUser } from "../support/ordinary-user.ts";
import { PROGRAM, startProgram, type TestProgram } from "../support/program.ts";
import { openRawStdio, type RawStdio } from "../support/raw-stdio.ts";
import { startServe, type TestServe } from "../support/serve.ts";

/** What a killed server may leave for this long. */
const END_LIMIT_MS = 10_000;
const MAX_MEMORY_KB = 2_048;
const ROUNDS = 6;
const MAX_KILL_DELAY_MS = 1_500;
const SERVERS = 5;
const QUIET = { SANDBOX_MCP_LOG_LEVEL: "error" };

/** A home whose end also removes what a killed server left in it. */
async function openHome() {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await openTestHome());
  stack.defer(async () => {
    const gc = startProgram(["gc", "--home", path], QUIET);
    assert.equal(await gc.exited(), 0, gc.stderr());
  });
  const owned = stack.move();
  return { path, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

interface Session extends AsyncDisposable {
  readonly program: TestProgram;
  readonly raw: RawStdio;
}

async function startStdio(
  home: string,
  flags: readonly string[] = [],
  command?: readonly [string, ...string[]],
): Promise<Session> {
  const program = startProgram(
    ["stdio", "--home", home, "--toolsets", "all", ...flags],
    QUIET,
    command,
  );
  assert.ok(program.child.stdin);
  program.child.stdin.on("error", () => undefined);
  const raw = openRawStdio(program.child.stdin, program.stdout);
  await raw.initialize();
  return { program, raw, [Symbol.asyncDispose]: () => program[Symbol.asyncDispose]() };
}

/** Creates a sandbox in which a process runs. */
async function createBusy({ raw }: Session, input: object = {}): Promise<string> {
  const created = await raw.request("tools/call", { name: "create_sandbox", arguments: input });
  const fields = created["structuredContent"];
  assert.ok(typeof fields === "object" && fields !== null && "sandbox_id" in fields);
  const sandbox = { sandbox_id: String(fields.sandbox_id) };
  const run = { ...sandbox, cmd: "sleep 600", wait_seconds: 0 };
  await raw.request("tools/call", { name: "run_process", arguments: run });
  return sandbox.sandbox_id;
}

interface Found {
  readonly guardians: readonly number[];
  /** First processes of containers. */
  readonly containers: readonly number[];
}

/** The processes of a home that its servers do not end. */
async function findProcesses(home: string): Promise<Found> {
  const guardians: number[] = [];
  const containers: number[] = [];
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const command = await readFile(`/proc/${name}/cmdline`, "utf8").catch(() => "");
    if (command.includes("guardian.sh") && command.includes(home)) guardians.push(Number(name));
  }
  for (const instance of await readdir(join(home, "instances")).catch(() => [])) {
    const folder = join(home, "instances", instance, "s");
    for (const id of await readdir(folder).catch(() => [])) {
      const text = await readFile(join(folder, id, "container.json"), "utf8").catch(() => "{}");
      const { pid, startTicks } = JSON.parse(text);
      const stat = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
      const [state = "Z", ...rest] = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
      if (!"ZX".includes(state) && rest[18] === startTicks) containers.push(pid);
    }
  }
  return { guardians, containers };
}

const NOTHING: Found = { guardians: [], containers: [] };

async function expectNothing(home: string): Promise<void> {
  await expect
    .poll(async () => findProcesses(home), { timeout: END_LIMIT_MS, interval: 100 })
    .toEqual(NOTHING);
}

async function kill({ program }: Session): Promise<void> {
  program.child.kill("SIGKILL");
  await program.exited();
}

test("the sandboxes of a killed stdio server end, and its guardian after them", async () => {
  const before = await takeCensus();
  {
    await using home = await openHome();
    await using session = await startStdio(home.path);
    const paused = await createBusy(session);
    await session.raw.request("tools/call", {
      name: "pause_sandbox",
      arguments: { sandbox_id: paused },
    });
    await createBusy(session);
    const { guardians, containers } = await findProcesses(home.path);
    expect(guardians).toHaveLength(1);
    expect(containers.length).toBeGreaterThanOrEqual(2);
    const status = await readFile(`/proc/${guardians[0]}/status`, "utf8");
    const kilobytes = Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]);
    expect(kilobytes).toBeGreaterThan(0);
    expect(kilobytes).toBeLessThanOrEqual(MAX_MEMORY_KB);
    await kill(session);
    await expectNothing(home.path);
  }
  expect(await takeCensus()).toEqual(before);
});

test("a server that is killed at any moment leaves nothing", async () => {
  await using home = await openHome();
  const delays = Array.from({ length: ROUNDS }, () => Math.random() * MAX_KILL_DELAY_MS);
  for (const delayMs of delays) {
    await using session = await startStdio(home.path);
    const working = createBusy(session).catch(() => undefined);
    await delay(delayMs);
    await kill(session);
    await expectNothing(home.path);
    void working;
  }
});

test("each of five servers that start at once has a guardian of its own", async () => {
  await using home = await openHome();
  const start = async () => {
    const session = await startStdio(home.path);
    await createBusy(session);
    return session;
  };
  const sessions = await Promise.all(Array.from({ length: SERVERS }, start));
  expect((await findProcesses(home.path)).guardians).toHaveLength(SERVERS);
  const [survivor, ...victims] = sessions;
  assert.ok(survivor);
  await Promise.all(victims.map(async (session) => kill(session)));
  await expect
    .poll(async () => (await findProcesses(home.path)).guardians.length, { timeout: END_LIMIT_MS })
    .toBe(1);
  expect((await findProcesses(home.path)).containers.length).toBeGreaterThanOrEqual(1);
  await survivor[Symbol.asyncDispose]();
  expect(await findProcesses(home.path)).toEqual(NOTHING);
});

test("a guardian that was killed is replaced, and the new one does the same", async () => {
  await using home = await openHome();
  await using session = await startStdio(home.path);
  await createBusy(session);
  const [first = 0] = (await findProcesses(home.path)).guardians;
  process.kill(first, "SIGKILL");
  const others = async () =>
    (await findProcesses(home.path)).guardians.filter((pid) => pid !== first);
  await expect.poll(others).toHaveLength(1);
  await kill(session);
  await expectNothing(home.path);
});

test("a server that ends waits for a guardian that does not, and leaves nothing", async () => {
  await using home = await openHome();
  await using session = await startStdio(home.path, ["--pool", "0"]);
  await createBusy(session);
  const [guardian = 0] = (await findProcesses(home.path)).guardians;
  process.kill(guardian, "SIGSTOP");
  session.program.child.stdin?.end();
  expect(await session.program.exited()).toBe(0);
  expect(await findProcesses(home.path)).toEqual(NOTHING);
  expect(await readdir(join(home.path, "instances"))).toEqual([]);
});

test("the guardian is gone once the last sandbox is, and comes back with the next one", async () => {
  await using home = await openHome();
  await using session = await startStdio(home.path, ["--pool", "0"]);
  for (const round of [1, 2]) {
    const id = await createBusy(session);
    expect((await findProcesses(home.path)).guardians, `round ${round}`).toHaveLength(1);
    await session.raw.request("tools/call", {
      name: "kill_sandbox",
      arguments: { sandbox_id: id },
    });
    await expect.poll(async () => findProcesses(home.path)).toEqual(NOTHING);
  }
});

function optionsOf({ apiKey, url }: TestServe) {
  return { apiKey, apiUrl: url, sandboxUrl: url };
}

test("a killed serve leaves its sandboxes until their time to live, and no longer", async () => {
  const before = await takeCensus();
  {
    await using first = await startServe();
    const options = optionsOf(first);
    const long = await Sandbox.create("base", { ...options, timeoutMs: 600_000 });
    const short = await Sandbox.create("base", { ...options, timeoutMs: 600_000 });
    const paused = await Sandbox.create("base", { ...options, timeoutMs: 600_000 });
    const lifecycle = { onTimeout: "pause" as const };
    const pausing = await Sandbox.create("base", { ...options, timeoutMs: 600_000, lifecycle });
    await paused.pause();
    await short.setTimeout(4_000);
    await pausing.setTimeout(4_000);
    first.program.child.kill("SIGKILL");
    await first.program.exited();
    // The pool is nobody's; of the four, one ends at its time.
    const containers = async () => (await findProcesses(first.home)).containers.length;
    await expect.poll(containers, { timeout: 3_000 }).toBe(4);
    await expect.poll(containers, { timeout: END_LIMIT_MS }).toBe(3);
    await delay(2_000);
    expect(await containers()).toBe(3);
    await using second = await startServe([], { earlier: first });
    const again = optionsOf(second);
    await expect
      .poll(async () => (await findProcesses(first.home)).guardians, { timeout: END_LIMIT_MS })
      .toHaveLength(1);
    expect(await Sandbox.getInfo(long.sandboxId, again)).toMatchObject({ state: "running" });
    expect(await Sandbox.getInfo(paused.sandboxId, again)).toMatchObject({ state: "paused" });
    await expect
      .poll(async () => (await Sandbox.getInfo(pausing.sandboxId, again)).state)
      .toBe("paused");
    await expect(Sandbox.getInfo(short.sandboxId, again)).rejects.toThrow("not found");
    for (const { sandboxId } of [long, paused, pausing]) await Sandbox.kill(sandboxId, again);
  }
  expect(await takeCensus()).toEqual(before);
});

test("a sandbox that a stdio server leaves ends at its time to live", async () => {
  await using home = await openHome();
  await using session = await startStdio(home.path, ["--on-exit", "leave"]);
  await createBusy(session, { timeout_seconds: 15 });
  const beganMs = performance.now();
  await session[Symbol.asyncDispose]();
  expect((await findProcesses(home.path)).containers).toHaveLength(1);
  await expect
    .poll(async () => findProcesses(home.path), { timeout: 15_000 + END_LIMIT_MS })
    .toEqual(NOTHING);
  expect(performance.now() - beganMs).toBeGreaterThan(10_000);
});

/** Every process whose command or cgroup names one of these words. */
async function findByWords(words: readonly string[]): Promise<{ pid: number; command: string }[]> {
  const found: { pid: number; command: string }[] = [];
  for (const name of await readdir("/proc")) {
    if (!/^\d+$/.test(name)) continue;
    const read = async (file: string) => readFile(`/proc/${name}/${file}`, "utf8").catch(() => "");
    const [command, cgroup] = await Promise.all([read("cmdline"), read("cgroup")]);
    const text = `${command}\n${cgroup}`;
    if (words.some((word) => text.includes(word))) found.push({ pid: Number(name), command });
  }
  return found;
}

test("in a process namespace of its own a killed server leaves nothing", async () => {
  await using home = await openHome();
  // The first process of the namespace outlives the server.
  const words = ["--pid", "--fork", "--mount-proc", "sh", "-c", '"$@"; sleep 20', "sh"];
  const command = ["unshare", ...words, process.execPath, PROGRAM] as const;
  await using session = await startStdio(home.path, [], command);
  const id = await createBusy(session);
  const all = await findByWords([home.path]);
  const server = all.find((entry) => entry.command.startsWith(`${process.execPath}\0${PROGRAM}`));
  assert.ok(server);
  expect((await findByWords([id])).length).toBeGreaterThan(1);
  process.kill(server.pid, "SIGKILL");
  const left = async () => (await findByWords([`${home.path}/`, id])).map((entry) => entry.command);
  await expect.poll(left, { timeout: END_LIMIT_MS }).toEqual([]);
  await kill(session);
});

test("an ordinary user's killed server leaves nothing either, running or paused", async () => {
  await using person = await openOrdinaryUser({ ids: true });
  await using session = await startStdio(person.data, [], person.program);
  const paused = await createBusy(session);
  await session.raw.request("tools/call", {
    name: "pause_sandbox",
    arguments: { sandbox_id: paused },
  });
  await createBusy(session);
  const { guardians, containers } = await findProcesses(person.data);
  expect(guardians).toHaveLength(1);
  expect(containers.length).toBeGreaterThanOrEqual(2);
  await kill(session);
  await expectNothing(person.data);
  await expect.poll(async () => person.processes()).toEqual([]);
});
