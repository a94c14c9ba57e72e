/** 200 sandboxes alive on two nodes: created in waves through both fronts, used, listed, paged and killed. */

import { Sandbox } from "e2b";
import { z } from "../../../src/common/schema.ts";
import { eventually, expectNothing, type World } from "../world.ts";
import { clientOf } from "./faults.ts";
import { imageOf, inWaves, spread, timed } from "./images.ts";

const SANDBOXES = 200;
const WAVE = 25;
const LISTS = 10;
const PAGE = 100;
/** Of the other node's share: the scheduler spreads by what Pods ask for. */
const LEAST_SHARE = 0.25;
const SETTLE_MS = 180_000;

export async function runMany(world: World): Promise<void> {
  const sandboxes: Sandbox[] = [];
  await world.check(`${SANDBOXES} sandboxes alive`, () => createAll(world, sandboxes));
  await world.check("each of them answers, and is told its own id", () => useAll(sandboxes));
  await world.check("both nodes have them", () => countByNode(world, sandboxes));
  await world.check("lists of all, and their pages", () => listAll(world, sandboxes));
  await world.check("all are killed, and nothing is left", async () => {
    const { ms } = await timed(async () => inWaves(sandboxes, async (sandbox) => sandbox.kill()));
    await eventually(() => expectNothing(world.admin), SETTLE_MS);
    return `${ms} ms`;
  });
}

async function createAll({ url, apiKey }: World, sandboxes: Sandbox[]): Promise<string> {
  const options = { ...clientOf(url, apiKey), timeoutMs: 1_800_000 };
  const durations: number[] = [];
  const { ms } = await timed(async () => {
    while (sandboxes.length < SANDBOXES) {
      const wave = await Promise.all(
        Array.from({ length: WAVE }, async () => timed(async () => Sandbox.create(options))),
      );
      sandboxes.push(...wave.map(({ value }) => value));
      durations.push(...wave.map((each) => each.ms));
    }
  });
  return `${ms} ms in waves of ${WAVE}, each ${spread(durations)}`;
}

async function useAll(sandboxes: readonly Sandbox[]): Promise<string> {
  const durations = await inWaves(sandboxes, async (sandbox) => {
    const script = "echo $E2B_SANDBOX_ID; id -un";
    const { value, ms } = await timed(async () => sandbox.commands.run(script));
    if (value.stdout !== `${sandbox.sandboxId}\nuser\n`) throw new Error(value.stdout);
    return ms;
  });
  return spread(durations);
}

async function countByNode(world: World, sandboxes: readonly Sandbox[]): Promise<string> {
  const counts = new Map<string, number>();
  for (const { sandboxId } of sandboxes) {
    const { node } = await imageOf(world, sandboxId);
    counts.set(node, (counts.get(node) ?? 0) + 1);
  }
  const least = Math.min(...counts.values());
  const text = [...counts].map(([node, count]) => `${node}: ${count}`).join(", ");
  if (counts.size < 2 || least < SANDBOXES * LEAST_SHARE) throw new Error(text);
  return text;
}

const listSchema = z.array(z.object({ sandboxID: z.string() }));

async function listAll(world: World, sandboxes: readonly Sandbox[]): Promise<string> {
  const durations: number[] = [];
  for (let round = 0; round < LISTS; round += 1) {
    const { value, ms } = await timed(async () => ask(world, "/sandboxes"));
    if (value.ids.length !== SANDBOXES) throw new Error(`${value.ids.length} in GET /sandboxes`);
    durations.push(ms);
  }
  const paged: string[] = [];
  for (let next = ""; paged.length < SANDBOXES;) {
    const query = next === "" ? "" : `&nextToken=${encodeURIComponent(next)}`;
    const page = await ask(world, `/v2/sandboxes?limit=${PAGE}${query}`);
    paged.push(...page.ids);
    next = page.next;
    if (next === "") break;
  }
  const expected = sandboxes.map(({ sandboxId }) => sandboxId).toSorted();
  if (paged.toSorted().join() !== expected.join()) throw new Error(`${paged.length} in pages`);
  return `all in one reply ${spread(durations)}; pages of ${PAGE} are the same`;
}

async function ask({ url, apiKey }: World, path: string) {
  const reply = await fetch(url + path, { headers: { "x-api-key": apiKey } });
  if (!reply.ok) throw new Error(`${path}: ${reply.status} ${await reply.text()}`);
  const ids = listSchema.parse(await reply.json()).map(({ sandboxID }) => sandboxID);
  return { ids, next: reply.headers.get("x-next-token") ?? "" };
}
