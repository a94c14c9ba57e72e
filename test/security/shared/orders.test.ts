/**
 * E57 by chance, from a printed seed: any shared file, any way to leave a trace on it, any pair of
 * neighbours and users and any order; nobody sees of the other what would not be there without it.
 */

import { isDeepStrictEqual } from "node:util";
import { Sandbox, Volume } from "e2b";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openOrdinaryUser } from "../../support/ordinary-user.ts";
import { createRandom, printedSeed, type Random } from "../../support/random.ts";
import { tellCells } from "../../support/run/cells.ts";
import { attackPlaces, hasOwnKernel, IS_WHOLE_RUN } from "../../support/runtimes.ts";
import { startServe } from "../../support/serve.ts";
import { startAgent, WAYS, type Agent, type Way } from "./agent.ts";
import { isKnown, listPaths } from "./paths.ts";

const SEED = printedSeed("shared files");
/** On each place; on all of them together more than 500 in a whole run. */
const CASES = IS_WHOLE_RUN ? Math.ceil(520 / attackPlaces().length) : 20;
const USERS = ["root", "user"] as const;
/** On a volume, which is shared on purpose. */
const SHARED = "/data/file";

interface Case {
  readonly path: string;
  /** What one does, and what the other tries in order to see it. */
  readonly way: Way;
  readonly trial: Way;
  readonly from: Agent;
  readonly to: Agent;
}

/** Each returns what was seen, and what would have been seen of nobody. */
const ORDERS: Readonly<Record<string, (one: Case) => Promise<readonly [unknown, unknown]>>> = {
  async "watched while it is done"({ path, way, from, to }) {
    const begun = await to.watch(path);
    await from.attempt(way, path);
    return [begun === "ok" ? await to.seen() : "ok", "ok"];
  },
  async "tried while it is held"({ path, way, trial, from, to }) {
    const before = await to.attempt(trial, path);
    await from.act(way, path);
    const after = await to.attempt(trial, path);
    await from.release();
    return [after, before];
  },
  async "tried after it was done"({ path, way, trial, from, to }) {
    const before = await to.attempt(trial, path);
    await from.attempt(way, path);
    return [await to.attempt(trial, path), before];
  },
  async "held by the one who looks"({ path, way, trial, from, to }) {
    const before = await from.attempt(way, path);
    await to.act(trial, path);
    const after = await from.attempt(way, path);
    await to.release();
    return [after, before];
  },
};

describe.each(attackPlaces())("on $name", (place) => {
  let stack: AsyncDisposableStack;
  let agents: readonly (readonly Agent[])[];
  let paths: readonly string[];

  beforeAll(async () => {
    stack = new AsyncDisposableStack();
    const account = place.isRootless ? stack.use(await openOrdinaryUser({ ids: true })) : undefined;
    const flags = ["--runtime", place.runtime, "--pool", "0"];
    const serve = stack.use(await startServe(flags, { account, base: "copied" }));
    const options = { apiKey: serve.apiKey, apiUrl: serve.url, sandboxUrl: serve.url };
    const volume = await Volume.create("shared", options);
    const create = async () =>
      Sandbox.create("base", { ...options, volumeMounts: { "/data": volume } });
    const sandboxes = [await create(), await create()];
    stack.defer(async () => void (await Promise.all(sandboxes.map((one) => one.kill()))));
    const [first] = sandboxes;
    if (first === undefined) throw new Error("no sandbox");
    await first.commands.run(`echo text > ${SHARED}`, { user: "root" });
    const listed = await listPaths(first);
    // What a runtime hides is covered with the null device: without root with that of the machine.
    const look = `for f in ${listed.join(" ")}; do [ ! -c $f ] || echo $f; done`;
    const devices = (await first.commands.run(look, { user: "root" })).stdout.trim().split("\n");
    const isShared = (path: string) =>
      isKnown(place, path) || (place.isRootless && devices.includes(path));
    paths = listed.filter((path) => !isShared(path));
    agents = await Promise.all(
      sandboxes.map(async (one) => Promise.all(USERS.map(async (user) => startAgent(one, user)))),
    );
  });

  afterAll(async () => stack.disposeAsync());

  const chooseCase = (random: Random, path: string): Case => {
    const isBack = random.once(2);
    const [from, to] = isBack ? [agents[1], agents[0]] : [agents[0], agents[1]];
    if (from === undefined || to === undefined) throw new Error("no agents");
    const [way, trial] = [random.pick(WAYS), random.pick(WAYS)];
    return { path, way, trial, from: random.pick(from), to: random.pick(to) };
  };

  test(`E57 no order of what neighbours do to a shared file tells one of the other, seed ${SEED}`, async (context) => {
    const random = createRandom(SEED);
    expect(paths.length).toBeGreaterThan(60);
    for (let count = 0; count < CASES; count += 1) {
      const [order, play] = random.pick(Object.entries(ORDERS));
      const one = chooseCase(random, random.pick(paths));
      const [seen, expected] = await play(one);
      const { path, way, trial } = one;
      expect({ order, path, way, trial, seen }).toEqual({
        order,
        path,
        way,
        trial,
        seen: expected,
      });
    }
    tellCells(context, CASES);
  });

  // Each kernel of its own has its own locks and watches, also of a volume.
  const isOwn = hasOwnKernel(place.runtime);
  const tells = isOwn
    ? "on a volume no order tells either"
    : "control: on a volume each order tells";
  test(`E57 ${tells}, seed ${SEED}`, async () => {
    const random = createRandom(SEED);
    const [from, to] = [agents[0]?.[0], agents[1]?.[0]];
    if (from === undefined || to === undefined) throw new Error("no agents");
    for (const [order, play] of Object.entries(ORDERS)) {
      // What was let go leaves no more than a time: that is for a watch.
      if (order === "tried after it was done") continue;
      const way = random.pick(["flock", "open file lock"] as const);
      const [seen, expected] = await play({ path: SHARED, way, trial: way, from, to });
      expect(isDeepStrictEqual(seen, expected), `order: ${order}`).toBe(isOwn);
    }
  });
});
