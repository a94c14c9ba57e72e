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
  /** With a pool, and without one. */
  readonly warm: Place;
  readonly cold: Place;
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
  ["create of a Pod or container of its own", ROUNDS, createCold],
  ["a command", 1, runCommands],
  ["100 MB up", TRANSFERS, upload],
  ["100 MB down", TRANSFERS, download],
  ["snapshot of 100 MB", TRANSFERS, snapshot],
  ["create from that snapshot", TRANSFERS, restore],
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

async function createCold({ cold }: Target): Promise<number[]> {
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

async function restore({ cold }: Target, round: number): Promise<number[]> {
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
  for (const { name, warm } of targets) {
    const sandboxes = await createMany(warm);
    const durations: number[] = [];
    for (let round = 0; round < ROUNDS; round += 1) {
      const { value, ms } = await timed(async () => request(warm, "GET /sandboxes"));
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
  const cold = stack.use(world.startFront("cold", {}, { template, pool: 0 }));
  await cold.ready();
  return {
    name: "Pods",
    warm: world,
    cold: { url: cold.url, apiKey: world.apiKey },
    awaitPool: async () => eventually(async () => expectWarm(world)),
  };
}

/** Two services on the home that has the template of the image. */
async function openLocal(world: World, stack: AsyncDisposableStack): Promise<Target> {
  const [warm, cold] = [startLocal(world, LOCAL_PORT, 2), startLocal(world, LOCAL_PORT + 1, 0)];
  for (const { program } of [warm, cold]) stack.use(program);
  for (const { place, log } of [warm, cold]) {
    await eventually(async () => request(place, "GET /sandboxes"), START_MS).catch(
      (error: unknown) => {
        throw new Error(readFileSync(log, "utf8").slice(-LOG_CHARACTERS), { cause: error });
      },
    );
  }
  return {
    name: "one machine",
    warm: warm.place,
    cold: cold.place,
    awaitPool: async () => delay(REFILL_MS),
  };
}

function startLocal({ directory, apiKey, home }: World, port: number, pool: number) {
  const name = `local-${port}`;
  const words = `serve --home ${home} --port ${port} --pool ${pool} --egress off --max-sandboxes 400`;
  const program = startProgram({
    directory,
    name,
    words: [process.execPath, MAIN, ...words.split(" ")],
    environment: { SANDBOX_MCP_API_KEY: apiKey },
  });
  return {
    program,
    log: join(directory, `${name}.log`),
    place: { url: `http://127.0.0.1:${port}`, apiKey },
  };
}
