/**
 * Hosts of both kinds call tools at random while their servers, the service and streams are ended,
 * stopped and cut off: every reply fits a model, each line of output is there once or a mark tells of
 * it, and nothing is gone.
 */

import { setTimeout as delay } from "node:timers/promises";
import { expect, test } from "vitest";
import { openFaultHome } from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { POLL_MS, ToolAgent, type ToolWorld } from "../../support/faults/tool-agent.ts";

const { random } = faultRun();
const CALLS = Number(process.env["TOOL_SEQUENCES"] ?? 400);
const AGENTS = 3;
const LIMIT_MS = 30 * 60_000;
/** Between two ends of the service. */
const MAX_QUIET_MS = 7_000;
const MAX_STOP_MS = 4_000;

async function disturb(world: ToolWorld): Promise<void> {
  const { home, done } = world;
  while (world.calls < CALLS) {
    await delay(random.below(MAX_QUIET_MS));
    const kind = random.pick(["SIGKILL", "SIGTERM", "SIGSTOP"] as const);
    done.push(kind);
    if (kind === "SIGSTOP") {
      home.signal("SIGSTOP");
      await delay(random.below(MAX_STOP_MS));
      home.signal("SIGCONT");
      continue;
    }
    world.isUp = false;
    while (world.opening > 0) await delay(POLL_MS);
    await home.stop(kind);
    await home.start();
    world.isUp = true;
  }
}

test(`${CALLS} random calls of tools around ends of servers`, { timeout: LIMIT_MS }, async () => {
  await using home = await openFaultHome(["--pool", "1", "--toolsets", "all"]);
  await home.start();
  const shared = { home, random, maxCalls: CALLS };
  const world: ToolWorld = { ...shared, done: [], calls: 0, isUp: true, opening: 0 };
  const agents = Array.from({ length: AGENTS }, () => new ToolAgent(world));
  const works = [disturb(world), ...agents.map((agent) => agent.run())];
  const ends = await Promise.allSettled(
    works.map(async (work) =>
      work.catch((error: unknown) => {
        world.calls = CALLS;
        throw error;
      }),
    ),
  );
  for (const agent of agents) await agent.close();
  const faults = ends.flatMap((end) => (end.status === "rejected" ? [String(end.reason)] : []));
  expect(faults.length === 0 ? [] : [...faults, ...world.done.slice(-200)]).toEqual([]);
});
