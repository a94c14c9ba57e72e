/** Teams on a service that has too few places for all of them. */

import { expect, test } from "vitest";
import { createSystemClock } from "../../../src/common/clock.ts";
import { z } from "../../../src/common/schema.ts";
import { createKey } from "../../../src/sandboxes/keys.ts";
import { createLayerEngine } from "../../support/engine/layer-engine.ts";
import { createRandom, type Random } from "../../support/random.ts";
import { tellCells } from "../../support/run/cells.ts";
import { IS_WHOLE_RUN } from "../../support/runtimes.ts";
import { startTestService, type Reply, type TestService } from "../../support/service.ts";

const SEED = Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_007);
const STEPS = IS_WHOLE_RUN ? 150 : 12;
const MAX = 12;
/** Half of all, shared out among three. */
const SHARE = 2;
/** What the shares of two others leave. */
const LIMIT = 8;
const TEAMS = ["red", "green", "blue"];

const madeSchema = z.object({ sandboxID: z.string() });
const forksSchema = z.array(
  z.object({ sandbox: madeSchema.optional(), error: z.object({ message: z.string() }).optional() }),
);

interface World extends AsyncDisposable {
  readonly service: TestService;
  readonly keys: ReadonlyMap<string, string>;
}

async function startWorld(): Promise<World> {
  const service = await startTestService({
    engine: createLayerEngine(),
    maxSandboxes: MAX,
  });
  const { store } = service.embedded;
  const keys = new Map(
    TEAMS.map((team) => [team, createKey(store, createSystemClock(), { name: team, team }).key]),
  );
  return { service, keys, [Symbol.asyncDispose]: () => service[Symbol.asyncDispose]() };
}

async function create({ service, keys }: World, team: string): Promise<Reply> {
  return service.call({
    method: "POST",
    path: "/v2/sandboxes",
    body: { templateID: "base", timeout: 600 },
    headers: { "x-api-key": keys.get(team) ?? "" },
  });
}

async function createMany(world: World, team: string, amount: number): Promise<readonly Reply[]> {
  return Promise.all(Array.from({ length: amount }, () => create(world, team)));
}

function statuses(replies: readonly Reply[]): Readonly<Record<number, number>> {
  const counts: Record<number, number> = {};
  for (const { status } of replies) counts[status] = (counts[status] ?? 0) + 1;
  return counts;
}

test("E50 a team that takes all it can get leaves the others their shares", async () => {
  await using world = await startWorld();
  const first = await createMany(world, "red", 20);
  expect(statuses(first)).toEqual({ 201: LIMIT, 429: 20 - LIMIT });
  const refused = await create(world, "red");
  expect(refused.body).toEqual({
    code: 429,
    error_code: "sandbox_capacity_unavailable",
    message:
      "you have reached the maximum number of concurrent E2B sandboxes (8): your team has 8 of at most 8, paused ones included, the service takes 12, each team is sure of 2. If you need more, raise --max-sandboxes-per-team",
  });
  expect(refused.headers["retry-after"]).toBeUndefined();
  const others = await Promise.all([createMany(world, "green", 5), createMany(world, "blue", 5)]);
  expect(others.map(statuses)).toEqual([
    { 201: SHARE, 429: 3 },
    { 201: SHARE, 429: 3 },
  ]);
});

test("E50 a fork takes the places of all its copies at once", async () => {
  await using world = await startWorld();
  const { service, keys } = world;
  const source = madeSchema.parse((await create(world, "red")).body);
  const forking = service.call({
    method: "POST",
    path: `/sandboxes/${source.sandboxID}/fork`,
    body: { count: 7, timeout: 600 },
    headers: { "x-api-key": keys.get("red") ?? "" },
  });
  const beside = createMany(world, "red", 8);
  const forks = forksSchema.parse((await forking).body);
  const made = forks.filter(({ sandbox }) => sandbox !== undefined).length;
  const more = statuses(await beside)[201] ?? 0;
  expect(1 + made + more).toBe(LIMIT);
  expect(forks).toHaveLength(7);
  expect(statuses(await createMany(world, "green", 3))[201]).toBeGreaterThanOrEqual(SHARE);
  expect(service.embedded.sandboxes.count()).toMatchObject({ starting: 0 });
});

test("E50 control: with one team, all places are its own", async () => {
  await using service = await startTestService({ maxSandboxes: 3 });
  const made = Array.from({ length: 4 }, async () =>
    service.call({ method: "POST", path: "/v2/sandboxes", body: { templateID: "base" } }),
  );
  expect(statuses(await Promise.all(made))).toEqual({ 201: 3, 429: 1 });
});

/** What a team has, as the service itself lists it. */
async function listOf({ service, keys }: World, team: string): Promise<readonly string[]> {
  const headers = { "x-api-key": keys.get(team) ?? "" };
  const { body } = await service.call({ path: "/v2/sandboxes?state=running,paused", headers });
  return z
    .array(madeSchema)
    .parse(body)
    .map(({ sandboxID }) => sandboxID);
}

/** One event; what is not as promised is returned. */
async function step(world: World, random: Random): Promise<string[]> {
  const team = random.pick(TEAMS);
  const room = world.service.embedded.sandboxes.of(team);
  const own = await listOf(world, team);
  const [any] = own.length === 0 ? [] : [random.pick(own)];
  const kind = random.below(10);
  if (kind < 2 && any !== undefined) await room.kill(any);
  else if (kind === 2 && any !== undefined) {
    await room.pause(any, true).catch(() => undefined);
  } else {
    const reply = await create(world, team);
    if (reply.status === 201) return [];
    const isTrue = reply.text.includes(`your team has ${own.length} of at most ${LIMIT}`);
    return isTrue && own.length >= SHARE ? [] : [`${team} with ${own.length}: ${reply.text}`];
  }
  return [];
}

test(`E50 no team below its share is refused, seed ${SEED}`, async (context) => {
  await using world = await startWorld();
  const random = createRandom(SEED);
  const faults: string[] = [];
  for (let count = 0; count < STEPS; count += 1) {
    faults.push(...(await step(world, random)));
    const { running, paused, starting } = world.service.embedded.sandboxes.count();
    if (running + paused + starting > MAX) faults.push(`${running} and ${paused} of ${MAX}`);
  }
  expect(faults).toEqual([]);
  tellCells(context, STEPS);
});
