/** A home with sandboxes in every state that no fault may touch, and a look at whether all is true. */

import { expect } from "vitest";
import { takeCensus, type Census } from "../census.ts";
import type { TestHome } from "../home.ts";
import { KEPT } from "./fault-cases.ts";
import { listAll, make, openFaultHome, type FaultHome } from "./fault-home.ts";
import { findLies, processesOf, rowsOf } from "./truth.ts";

/** Every start goes through every step of one. */
export const NO_POOL: readonly string[] = ["--pool", "0"];

/** What is done in the background is done by then. */
const TRUTH_LIMIT_MS = 20_000;

interface Bystander {
  readonly id: string;
  readonly state: string;
  readonly endAt: string;
  readonly processes: readonly string[];
}

export interface FaultStage extends AsyncDisposable {
  readonly home: FaultHome;
  /** Database, machine and API agree; who had nothing to do with it goes on as before. */
  expectTruth(): Promise<void>;
  /** Removes what a case made, also where it failed. */
  clear(): Promise<void>;
}

/** Opens it with a running service. */
export async function openFaultStage(
  flags: readonly string[] = NO_POOL,
  makeHome?: () => Promise<TestHome>,
  modules: readonly string[] = [],
): Promise<FaultStage> {
  await using stack = new AsyncDisposableStack();
  const before = await takeCensus();
  const home = stack.use(await openFaultHome(flags, makeHome, modules));
  await home.start();
  const ids = [await make(home), await make(home), await make(home)] as const;
  for (const id of ids) await home.enter(id, KEPT.path, KEPT.text);
  await home.call("POST", `/sandboxes/${ids[1]}/pause`);
  await home.call("POST", `/sandboxes/${ids[2]}/pause`, { memory: false });
  await home.call("POST", `/sandboxes/${ids[0]}/snapshots`, { name: "acknowledged" });
  const bystanders = await lookAt(home, ids);
  const owned = stack.move();
  return {
    home,
    expectTruth: () => expectTruth({ home, before, bystanders }),
    async clear() {
      // A case that failed half way may have left it dead.
      if (!home.isRunning()) await home.start();
      await home.takeHit();
      for (const { sandboxID } of await listAll(home)) {
        if (!ids.includes(sandboxID)) await home.call("DELETE", `/sandboxes/${sandboxID}`);
      }
      for (const name of ["shot", "old"]) await home.call("DELETE", `/templates/${name}`);
      const volumes = await home.call("GET", "/volumes");
      for (const [, id] of JSON.stringify(volumes?.body).matchAll(/"volumeID":"([^"]+)"/g)) {
        await home.call("DELETE", `/volumes/${id}`);
      }
    },
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

async function lookAt(home: FaultHome, ids: readonly string[]): Promise<Bystander[]> {
  const listed = await listAll(home);
  return Promise.all(
    ids.map(async (id) => {
      const { state = "", endAt = "" } = listed.find(({ sandboxID }) => sandboxID === id) ?? {};
      // Without memory it has no processes.
      return { id, state, endAt, processes: await processesOf(home.path, id) };
    }),
  );
}

interface Stage {
  readonly home: FaultHome;
  readonly before: Census;
  readonly bystanders: readonly Bystander[];
}

async function expectTruth({ home, before, bystanders }: Stage): Promise<void> {
  await expect
    .poll(() => findLies(home.path, before), { timeout: TRUTH_LIMIT_MS, interval: 100 })
    .toEqual([]);
  const listed = await listAll(home);
  expect(listed.map(({ sandboxID }) => sandboxID).toSorted()).toEqual(rowsOf(home.path));
  const running = listed.filter(({ state }) => state === "running");
  const answers = running.map(async ({ sandboxID }) => home.enter(sandboxID, "/health"));
  const statuses = (await Promise.all(answers)).map((answer) => answer?.status);
  expect(statuses).toEqual(running.map(() => 204));
  const ids = bystanders.map(({ id }) => id);
  expect(await lookAt(home, ids)).toEqual(bystanders);
  const shots = await home.call("GET", "/snapshots");
  expect(JSON.stringify(shots?.body)).toContain("acknowledged");
}
