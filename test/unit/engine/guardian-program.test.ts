/** `guardian.sh` over trees of plain files: which file it writes, whom it kills, when it ends. */

import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, readlink, rename, writeFile } from "node:fs/promises";
import { uptime } from "node:os";
import { dirname, join, resolve } from "node:path";
import { expect, test } from "vitest";
import { makeTempFolder } from "../../support/temp-folder.ts";

const PROGRAM = resolve(import.meta.dirname, "../../../src/shell/guardian.sh");
const ID = "i0";

/** `named`: without root, by the file of the container. */
type Kind = "unified" | "freezer" | "both" | "named";

interface World extends AsyncDisposable {
  /** A process that stands for those of the container. */
  readonly victim: ChildProcess;
  readonly tree: string;
  readonly folder: string;
  start(rule: "kill" | "leave", kind: Kind, program?: string): ChildProcess;
}

/** An instance with one container, whose cgroup is a folder of plain files. */
async function openWorld(): Promise<World> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await makeTempFolder());
  const victim = spawn("sleep", ["600"]);
  stack.defer(() => void victim.kill("SIGKILL"));
  const tree = join(path, "tree");
  const folder = join(path, "s", ID);
  await mkdir(join(tree, ID), { recursive: true });
  await mkdir(folder, { recursive: true });
  await writeFile(join(tree, ID, "cgroup.procs"), `${victim.pid}\n`);
  await writeFile(join(tree, ID, "cgroup.events"), "populated 1\nfrozen 0\n");
  const owned = stack.move();
  const start: World["start"] = (rule, kind, program = PROGRAM) => {
    const both = [join(path, "unified"), tree];
    const trees = { unified: [tree, "-"], freezer: ["-", tree], both, named: ["-", "-"] }[kind];
    const guardian = spawn("sh", [program, rule, path, ...trees], {
      stdio: ["pipe", "ignore", "ignore"],
    });
    owned.defer(() => void guardian.kill("SIGKILL"));
    return guardian;
  };
  return { victim, tree, folder, start, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

const isAlive = ({ victim }: World) => victim.exitCode === null && victim.signalCode === null;
const readState = async ({ tree }: World, name: string) =>
  readFile(join(tree, ID, name), "utf8").catch(() => "");
const secondsFromNow = (seconds: number) => Math.floor(Date.now() / 1_000) + seconds;

test("the line end ends it, and nothing else", async () => {
  await using world = await openWorld();
  const guardian = world.start("kill", "freezer");
  guardian.stdin?.end("end\n");
  expect(await once(guardian, "exit")).toEqual([0, null]);
  expect(isAlive(world)).toBe(true);
});

test.for(["freezer", "both"] as const)(
  "in an old tree the processes are killed while frozen, then thawed: %s",
  async (kind) => {
    await using world = await openWorld();
    world.start("kill", kind).stdin?.end();
    await expect.poll(() => world.victim.signalCode).toBe("SIGKILL");
    await expect.poll(() => readState(world, "freezer.state")).toBe("THAWED\n");
  },
);

test.for(["unified", "named"] as const)(
  "in the %s tree the whole cgroup is killed",
  async (kind) => {
    await using world = await openWorld();
    await writeFile(join(world.folder, "cgroup"), `${join(world.tree, ID)}\n`);
    world.start("kill", kind).stdin?.end();
    await expect.poll(() => readState(world, "cgroup.kill")).toBe("1\n");
  },
);

test.for([
  ["unified", "cgroup.freeze", "1\n"],
  ["named", "cgroup.freeze", "1\n"],
  ["freezer", "freezer.state", "FROZEN\n"],
] as const)("a deadline that means pause freezes: %s", async ([kind, name, wanted]) => {
  await using world = await openWorld();
  await writeFile(join(world.folder, "expiry"), `${secondsFromNow(-1)} freeze\n`);
  await writeFile(join(world.folder, "cgroup"), `${join(world.tree, ID)}\n`);
  const guardian = world.start("leave", kind);
  guardian.stdin?.end();
  await expect.poll(() => readState(world, name)).toBe(wanted);
  expect(isAlive(world)).toBe(true);
  expect(await once(guardian, "exit")).toEqual([0, null]);
});

test("a deadline to come is waited for", async () => {
  await using world = await openWorld();
  await writeFile(join(world.folder, "expiry"), `${secondsFromNow(3)} end\n`);
  const beganMs = performance.now();
  world.start("leave", "freezer").stdin?.end();
  await expect.poll(() => world.victim.signalCode, { timeout: 10_000 }).toBe("SIGKILL");
  expect(performance.now() - beganMs).toBeGreaterThan(1_900);
});

test("a wall clock that was set forward or back moves no deadline", async () => {
  await using early = await openWorld();
  await using late = await openWorld();
  const day = 86_400;
  const bootSeconds = Math.ceil(uptime());
  await writeFile(
    join(early.folder, "expiry"),
    `${secondsFromNow(-day)} end\n${bootSeconds + day}\n`,
  );
  await writeFile(join(late.folder, "expiry"), `${secondsFromNow(day)} end\n${bootSeconds}\n`);
  early.start("leave", "freezer").stdin?.end();
  late.start("leave", "freezer").stdin?.end();
  await expect.poll(() => late.victim.signalCode, { timeout: 5_000 }).toBe("SIGKILL");
  expect(isAlive(early)).toBe(true);
});

test("where the time since the start of the machine cannot be read the wall clock counts", async () => {
  await using world = await openWorld();
  const beganMs = performance.now();
  const bootSeconds = Math.ceil(uptime());
  await writeFile(
    join(world.folder, "expiry"),
    `${secondsFromNow(4)} end\n${bootSeconds + 86_400}\n`,
  );
  const program = join(world.folder, "guardian.sh");
  const text = await readFile(PROGRAM, "utf8");
  await writeFile(program, text.replaceAll("/proc/uptime", "/proc/none"));
  world.start("leave", "freezer", program).stdin?.end();
  await expect.poll(() => world.victim.signalCode, { timeout: 10_000 }).toBe("SIGKILL");
  expect(performance.now() - beganMs).toBeGreaterThan(2_900);
});

test.for(["", "garbage end\n", "-5 end\n"])(
  "without a deadline it ends at once: %j",
  async (text) => {
    await using world = await openWorld();
    if (text !== "") await writeFile(join(world.folder, "expiry"), text);
    world.start("leave", "freezer").stdin?.end();
    await expect.poll(() => world.victim.signalCode).toBe("SIGKILL");
  },
);

test("it leaves the containers of a later service, which has a guardian of its own", async () => {
  await using world = await openWorld();
  const guardian = world.start("leave", "freezer");
  await writeFile(join(world.folder, "../../guardian"), `${process.pid} 1\n`);
  guardian.stdin?.end();
  expect(await once(guardian, "exit")).toEqual([0, null]);
  expect(isAlive(world)).toBe(true);
});

test("it knows itself by the file", async () => {
  await using world = await openWorld();
  const guardian = world.start("leave", "freezer");
  await writeFile(join(world.folder, "../../guardian"), `${guardian.pid} 1\n`);
  guardian.stdin?.end();
  await expect.poll(() => world.victim.signalCode).toBe("SIGKILL");
});

test("a home that is moved keeps its guardian", async () => {
  await using world = await openWorld();
  await writeFile(join(world.folder, "expiry"), `${secondsFromNow(5)} end\n`);
  const instance = dirname(world.tree);
  const guardian = world.start("leave", "freezer");
  const place = async () => readlink(`/proc/${guardian.pid}/cwd`);
  await expect.poll(place).toBe(instance);
  guardian.stdin?.end();
  await rename(instance, `${instance}-moved`);
  // Cgroups stay where they are.
  await mkdir(instance);
  await rename(join(`${instance}-moved`, "tree"), world.tree);
  await expect.poll(() => world.victim.signalCode, { timeout: 15_000 }).toBe("SIGKILL");
});

/** What stands for the program beside a container, or has its number by now; it ends by its signal. */
async function startBeside(world: World, ...words: readonly string[]): Promise<ChildProcess> {
  await mkdir(join(world.folder, "runtime"));
  const script = "trap 'exit 7' USR1; echo up; while :; do sleep 0.05; done";
  const beside = spawn("sh", ["-c", script, ...words], { stdio: ["ignore", "pipe", "inherit"] });
  await once(beside.stdout, "data");
  await writeFile(join(world.folder, "runtime/relay"), `${beside.pid}\n`);
  await writeFile(join(world.folder, "expiry"), `${secondsFromNow(-1)} freeze\n`);
  return beside;
}

test("a kernel of its own is paused by its program, and not frozen", async () => {
  await using world = await openWorld();
  const relay = await startBeside(world, "/daemon/sentry-relay.pl", "x64", ID);
  try {
    world.start("leave", "unified").stdin?.end();
    expect(await once(relay, "exit")).toEqual([7, null]);
    expect([await readState(world, "cgroup.freeze"), isAlive(world)]).toEqual(["", true]);
  } finally {
    relay.kill("SIGKILL");
  }
});

test("another process that has the number of that program by now gets no signal", async () => {
  await using world = await openWorld();
  const other = await startBeside(world, "/daemon/sentry-relay.pl", "x64", "i1");
  try {
    const guardian = world.start("leave", "unified");
    guardian.stdin?.end();
    expect(await once(guardian, "exit")).toEqual([0, null]);
    expect([other.exitCode, await readState(world, "cgroup.freeze")]).toEqual([null, ""]);
  } finally {
    other.kill("SIGKILL");
  }
});

test("what is no container of the instance is left alone, and it ends", async () => {
  await using world = await openWorld();
  await writeFile(join(world.tree, ID, "cgroup.events"), "populated 0\nfrozen 0\n");
  await mkdir(join(world.folder, "..", "Not a container"), { recursive: true });
  const guardian = world.start("kill", "unified");
  guardian.stdin?.end();
  expect(await once(guardian, "exit")).toEqual([0, null]);
  expect(await readState(world, "cgroup.kill")).toBe("");
});

test("a file that names the cgroup of another container is not followed", async () => {
  await using world = await openWorld();
  await writeFile(join(world.folder, "cgroup"), `${join(world.tree, "other")}\n`);
  const guardian = world.start("kill", "named");
  guardian.stdin?.end();
  expect(await once(guardian, "exit")).toEqual([0, null]);
  expect(await readState(world, "cgroup.kill")).toBe("");
});
