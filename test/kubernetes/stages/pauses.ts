/** Pauses on the real cluster: programs stop, files become an image, and another Pod has them. */

import { setTimeout as delay } from "node:timers/promises";
import { Sandbox } from "e2b";
import { z } from "../../../src/common/schema.ts";
import { eventually, namesOf, type World } from "../world.ts";
import { clientOf } from "./faults.ts";
import {
  cleanUp,
  createFrom,
  expectImagesSettled,
  imageOf,
  request,
  send,
  SETTLE_MS,
  timed,
} from "./images.ts";

const ROUNDS = 3;
const stateSchema = z.object({ state: z.string(), pauseMode: z.string().optional() });

export async function runPauses(world: World): Promise<void> {
  await world.check("pause and connect: the files, the id and the token", () => pauseRounds(world));
  await world.check("more pauses than an image has layers of them", () => pauseOften(world));
  await world.check("a program that writes is stopped before its files are read", () =>
    pauseWriter(world),
  );
  await world.check("at its timeout it is paused, and traffic resumes it", () => wake(world));
  await world.check("the registry is away: the pause is refused, and programs go on", () =>
    failPause(world),
  );
  await world.check("a paused one is killed: its image goes", () => killPaused(world));
  await world.check("nothing is left of pauses", () => cleanUp(world));
}

async function stateOf(world: World, id: string) {
  return stateSchema.parse(await request(world, `GET /sandboxes/${id}`));
}

async function pause(world: World, id: string): Promise<number> {
  const { ms } = await timed(async () => request(world, `POST /sandboxes/${id}/pause`));
  const { state, pauseMode } = await stateOf(world, id);
  if (state !== "paused" || pauseMode !== "filesystem") throw new Error(`${state} ${pauseMode}`);
  return ms;
}

async function pauseRounds(world: World): Promise<string> {
  const sandbox = await createFrom(world, "base");
  const { sandboxId } = sandbox;
  const options = clientOf(world.url, world.apiKey);
  const durations: string[] = [];
  for (let round = 1; round <= ROUNDS; round += 1) {
    await sandbox.commands.run(`echo ${round} >> ~/rounds; nohup sleep 1000 >/dev/null 2>&1 &`);
    const paused = await pause(world, sandboxId);
    const noPod = eventually(async () => {
      if ((await namesOf(world.admin, "pods", "sandbox")).includes(sandboxId))
        throw new Error("Pod");
    });
    const { ms } = await timed(async () => noPod);
    const connected = await timed(async () => Sandbox.connect(sandboxId, options));
    durations.push(`pause ${paused}, Pod gone ${ms}, connect ${connected.ms} ms`);
    // The client has the token of the first run.
    const { stdout } = await sandbox.commands.run("cat ~/rounds; pgrep -c sleep || true");
    const expected = Array.from({ length: round }, (_, index) => `${index + 1}\n`).join("");
    if (stdout !== `${expected}0\n`) throw new Error(JSON.stringify(stdout));
  }
  await eventually(async () => {
    const images = await expectImagesSettled(world);
    if (images.length !== 1) throw new Error(images.join(" "));
  }, SETTLE_MS);
  const { node } = await imageOf(world, sandboxId);
  await sandbox.kill();
  return `${durations.join("; ")}; last on ${node}`;
}

/** Beyond this their layers are merged. */
const MAX_DEPTH = 24;

/** A directory of the image is removed, and is made again in a later run: the merged layer hides the old one. */
async function pauseOften(world: World): Promise<string> {
  const sandbox = await createFrom(world, "base");
  const { sandboxId } = sandbox;
  const options = clientOf(world.url, world.apiKey);
  const durations: number[] = [];
  const steps = new Map([
    [2, "sudo rm -r /usr/share/doc"],
    [3, "sudo mkdir /usr/share/doc && sudo touch /usr/share/doc/new"],
    [4, "echo old > ~/first && ln ~/first ~/second"],
    [5, "echo new > ~/part && mv ~/part ~/first"],
  ]);
  for (let count = 1; count <= MAX_DEPTH + 2; count += 1) {
    await sandbox.commands.run(steps.get(count) ?? "true");
    await sandbox.commands.run(`echo ${count} >> ~/count`);
    durations.push(await pause(world, sandboxId));
    await Sandbox.connect(sandboxId, options);
  }
  const { stdout } = await sandbox.commands.run(
    "ls /usr/share/doc; cat ~/first ~/second; tail -n 1 ~/count; wc -l < ~/count",
  );
  const last = MAX_DEPTH + 2;
  if (stdout !== `new\nnew\nold\n${last}\n${last}\n`) throw new Error(JSON.stringify(stdout));
  await sandbox.kill();
  const [merging, after] = durations.slice(MAX_DEPTH);
  return `the ${MAX_DEPTH}th ${durations[MAX_DEPTH - 1]}, the next ${merging}, then ${after} ms`;
}

/** Renamed: one that is stopped between opening and writing leaves an empty file. */
function write(name: string): string {
  return `echo $i > ~/part; mv ~/part ~/${name}`;
}

/** Two files that a program writes one after the other never differ by more than the one step. */
async function pauseWriter(world: World): Promise<string> {
  const sandbox = await createFrom(world, "base");
  const loop = `i=0; while :; do i=$((i+1)); ${write("first")}; ${write("second")}; done`;
  await sandbox.commands.run(`bash -c '${loop}'`, { background: true, timeoutMs: 0 });
  await delay(1_000);
  await pause(world, sandbox.sandboxId);
  await Sandbox.connect(sandbox.sandboxId, clientOf(world.url, world.apiKey));
  const { stdout } = await sandbox.commands.run("cat ~/first ~/second");
  const [first = 0, second = 0] = stdout.split("\n").map(Number);
  await sandbox.kill();
  if (first < 10 || ![0, 1].includes(first - second)) throw new Error(stdout);
  return `stopped after ${first} and ${second} writes`;
}

async function wake(world: World): Promise<string> {
  const body = await request(world, "POST /sandboxes", {
    templateID: "base",
    timeout: 5,
    autoPause: true,
    autoResume: { enabled: true },
  });
  const { sandboxID } = z.object({ sandboxID: z.string() }).parse(body);
  const options = clientOf(world.url, world.apiKey);
  const sandbox = await Sandbox.connect(sandboxID, { ...options, timeoutMs: 5_000 });
  await sandbox.commands.run("echo kept > ~/kept");
  await eventually(async () => {
    if ((await stateOf(world, sandboxID)).state !== "paused") throw new Error("it runs");
  }, SETTLE_MS);
  const woken = await timed(async () => sandbox.commands.run("cat ~/kept"));
  if (woken.value.stdout !== "kept\n") throw new Error(woken.value.stdout);
  await sandbox.kill();
  return `a command of a paused one took ${woken.ms} ms`;
}

async function failPause(world: World): Promise<string> {
  const sandbox = await createFrom(world, "base");
  const { sandboxId } = sandbox;
  const ticker = await sandbox.commands.run(
    "i=0; while :; do i=$((i+1)); echo $i > ~/ticks; sleep 0.1; done",
    { background: true, timeoutMs: 0 },
  );
  await world.registry.kill();
  const { status, text } = await send(world, `POST /sandboxes/${sandboxId}/pause`);
  const ticks = async () => Number((await sandbox.commands.run("cat ~/ticks")).stdout);
  const before = await ticks();
  await eventually(async () => {
    if ((await ticks()) <= before) throw new Error("programs stand still");
  });
  world.registry.start();
  await ticker.kill();
  await eventually(async () => pause(world, sandboxId), SETTLE_MS);
  await sandbox.kill();
  if (status !== 503) throw new Error(`${status} ${text}`);
  return `${status}`;
}

async function killPaused(world: World): Promise<string> {
  const sandbox = await createFrom(world, "base");
  await pause(world, sandbox.sandboxId);
  await sandbox.kill();
  const { ms } = await timed(async () =>
    eventually(async () => {
      const images = await expectImagesSettled(world);
      if (images.length > 0) throw new Error(images.join(" "));
    }, SETTLE_MS),
  );
  return `after ${ms} ms`;
}
