/** The same work by fronts of the cluster and by the engine of one machine, in turns, in one run. */

import { readFileSync, writeFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Sandbox } from "e2b";
import { z } from "../../../src/common/schema.ts";
import { startProgram } from "../cluster/process.ts";
import { eventually, expectNothing, type World } from "../world.ts";
import { cleanUp, createFrom, inWaves, request, spread, takeSnapshot, timed } from "./images.ts";
import { expectWarm } from "./load.ts";

const MAIN = resolve(import.meta.dirname, "../../../dist/main.js");
const ROUNDS = 10;
const COMMANDS = 30;
const TRANSFERS = 3;
const LISTED = 200;
const BYTES = 100_000_000;
const REFILL_MS = 2_000;
const START_MS = 60_000;
const SETTLE_MS = 180_000;
const LOCAL_PORT = 3_600;
const LOG_CHARACTERS = 2_000;

interface Target {
  readonly name: string;
  /** With a pool; until the one without a pool is asked for. */
  readonly warm: Place;
  /** The same service without a pool. */
  openCold(): Promise<Place>;
  /** Until a pooled sandbox is there. */
  awaitPool(): Promise<void>;
}

type Place = Pick<World, "url" | "apiKey">;
type Measure = (target: Target, round: number) => Promise<readonly number[]>;

export async function runCompare(world: World): Promise<void> {
  await using stack = new AsyncDisposableStack();
  const targets: Target[] = [];
  await world.check("compare: both services answer", async () => {
    targets.push(await openPods(world, stack), await openLocal(world, stack));
  });
  if (targets.length < 2) return;
  for (const [name, rounds, measure] of WORKS) {
    await world.check(`compare: ${name}`, async () => inTurns(targets, rounds, measure));
  }
  await world.check(`compare: a list of ${LISTED}`, () => compareLists(targets));
  await world.check("compare: nothing is left", async () => {
    await cleanUp(world);
    await eventually(() => expectNothing(world.admin), SETTLE_MS);
  });
}

const WORKS: readonly (readonly [string, number, Measure])[] = [
  ["create from the pool", ROUNDS, claim],
  ["a command", 1, runCommands],
  ["100 MB up", TRANSFERS, upload],
  ["100 MB down", TRANSFERS, download],
  ["snapshot of 100 MB", TRANSFERS, snapshot],
  ["create from that snapshot", TRANSFERS, restore],
  ["create of a Pod or container of its own", ROUNDS, createCold],
];

async function inTurns(
  targets: readonly Target[],
  rounds: number,
  measure: Measure,
): Promise<string> {
  const durations = new Map<string, number[]>(targets.map(({ name }) => [name, []]));
  for (let round = 0; round < rounds; round += 1) {
    for (const target of targets) {
      durations.get(target.name)?.push(...(await measure(target, round)));
    }
  }
  return [...durations].map(([name, all]) => `${name} ${spread(all)}`).join("; ");
}

async function claim(target: Target): Promise<number[]> {
  await target.awaitPool();
  const { value, ms } = await timed(async () => createFrom(target.warm, "base"));
  await value.kill();
  return [ms];
}

async function createCold(target: Target): Promise<number[]> {
  const cold = await target.openCold();
  const { value, ms } = await timed(async () => createFrom(cold, "base"));
  await value.kill();
  return [ms];
}

async function runCommands({ warm }: Target): Promise<number[]> {
  const sandbox = await createFrom(warm, "base");
  await sandbox.commands.run("true");
  const durations: number[] = [];
  for (let round = 0; round < COMMANDS; round += 1) {
    durations.push((await timed(async () => sandbox.commands.run("true"))).ms);
  }
  await sandbox.kill();
  return durations;
}

async function upload({ warm }: Target): Promise<number[]> {
  const sandbox = await createFrom(warm, "base");
  const data = new Uint8Array(BYTES).fill(7).buffer;
  const { ms } = await timed(async () => sandbox.files.write("/home/user/large", data));
  await sandbox.kill();
  return [ms];
}

async function download({ warm }: Target): Promise<number[]> {
  const sandbox = await createFrom(warm, "base");
  await sandbox.commands.run(`head -c ${BYTES} /dev/urandom > ~/large`);
  const { value, ms } = await timed(async () =>
    sandbox.files.read("/home/user/large", { format: "bytes" }),
  );
  await sandbox.kill();
  if (value.length !== BYTES) throw new Error(`${value.length} bytes`);
  return [ms];
}

async function snapshot({ warm }: Target, round: number): Promise<number[]> {
  const sandbox = await createFrom(warm, "base");
  await sandbox.commands.run(`head -c ${BYTES} /dev/urandom > ~/large; sync`);
  const { ms } = await timed(async () => takeSnapshot(warm, sandbox.sandboxId, nameOf(round)));
  await sandbox.kill();
  return [ms];
}

async function restore(target: Target, round: number): Promise<number[]> {
  const cold = await target.openCold();
  const { value, ms } = await timed(async () => createFrom(cold, nameOf(round)));
  const { stdout } = await value.commands.run("stat -c %s ~/large");
  await value.kill();
  if (stdout !== `${BYTES}\n`) throw new Error(stdout);
  await request(cold, `DELETE /templates/${nameOf(round)}`);
  return [ms];
}

function nameOf(round: number): string {
  return `compared-${round}`;
}

async function compareLists(targets: readonly Target[]): Promise<string> {
  const texts: string[] = [];
  for (const target of targets) {
    const { name } = target;
    const place = await target.openCold();
    const sandboxes = await createMany(place);
    const durations: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const { value, ms } = await timed(async () => request(place, "GET /sandboxes"));
      const count = z.array(z.unknown()).parse(value).length;
      if (count !== LISTED) throw new Error(`${name}: ${count} of ${LISTED}`);
      durations.push(ms);
    }
    await inWaves(sandboxes, async (sandbox) => sandbox.kill());
    texts.push(`${name} ${spread(durations)}`);
  }
  return texts.join("; ");
}

async function createMany(place: Place): Promise<Sandbox[]> {
  const places = Array.from({ length: LISTED }, () => place);
  return inWaves(places, async (each) => createFrom(each, "base"));
}

async function openPods(world: World, stack: AsyncDisposableStack): Promise<Target> {
  // Pods of a shape that no pool has.
  const template = join(world.directory, "cold.yaml");
  const label = `metadata: { labels: { cold: "yes" } }\n`;
  writeFileSync(template, label + readFileSync(world.template, "utf8"));
  const cold = stack.use(world.startFront("unpooled", {}, { template, pool: 0 }));
  await cold.ready();
  return {
    name: "Pods",
    warm: world,
    openCold: async () => ({ url: cold.url, apiKey: world.apiKey }),
    awaitPool: async () => eventually(async () => expectWarm(world)),
  };
}

/** A service on the home that has the template of the image; without a pool it is another process. */
async function openLocal(world: World, stack: AsyncDisposableStack): Promise<Target> {
  const opened = stack.use(new AsyncDisposableStack());
  const warm = opened.use(await startLocal(world, 2));
  let cold: Promise<Place> | undefined;
  const replace = async (): Promise<Place> => {
    await opened.disposeAsync();
    const started = stack.use(await startLocal(world, 0));
    return started.place;
  };
  return {
    name: "one machine",
    warm: warm.place,
    openCold: async () => (cold ??= replace()),
    awaitPool: async () => delay(REFILL_MS),
  };
}

async function startLocal({ directory, apiKey, home }: World, pool: number) {
  const name = `local-${pool}`;
  const words = `serve --home ${home} --port ${LOCAL_PORT} --pool ${pool} --egress off --max-sandboxes 400`;
  const program = startProgram({
    directory,
    name,
    words: [process.execPath, MAIN, ...words.split(" ")],
    environment: { SANDBOX_MCP_API_KEY: apiKey },
  });
  const place = { url: `http://127.0.0.1:${LOCAL_PORT}`, apiKey };
  try {
    await eventually(async () => request(place, "GET /sandboxes"), START_MS);
  } catch (error) {
    await program[Symbol.asyncDispose]();
    const log = readFileSync(join(directory, `${name}.log`), "utf8").slice(-LOG_CHARACTERS);
    throw new Error(log, { cause: error });
  }
  return { place, [Symbol.asyncDispose]: () => program[Symbol.asyncDispose]() };
}
