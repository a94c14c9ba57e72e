/**
 * Hosts with the same key share sessions of MCP over HTTP, and sandboxes, at random: calls are cancelled
 * and repeated, cut off and resumed, sent twice, in batches and without a session, while sessions and
 * sandboxes end. Every request has one answer that fits some order of the calls, and no stream stays open.
 */

import { text } from "node:stream/consumers";
import { expect, test } from "vitest";
import { openFaultHome } from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { startProgram } from "../../support/program.ts";
import { createActRandoms } from "../../support/sequences/act-random.ts";
import { exchange } from "../../support/sequences/mcp-exchange.ts";
import { Moments } from "../../support/sequences/register.ts";
import type { SessionWorld } from "../../support/sequences/session-caller.ts";
import { SessionHost } from "../../support/sequences/session-host.ts";

const { random } = faultRun();
const CALLS = Number(process.env["SESSION_SEQUENCES"] ?? 400);
const HOSTS = ["a", "b", "c", "d"];
const LIMIT_MS = 30 * 60_000;

async function createKey(home: string, team: string): Promise<string> {
  const program = startProgram(["key", "create", "other", "--team", team, "--home", home]);
  return (await text(program.stdout)).trim();
}

test(
  `${CALLS} random calls in sessions that hosts share and end`,
  { timeout: LIMIT_MS },
  async () => {
    await using home = await openFaultHome(["--pool", "1", "--toolsets", "all"]);
    await home.start();
    const { apiUrl, apiKey: key } = home.client();
    const url = `${apiUrl}/mcp`;
    const otherKey = await createKey(home.path, "other");
    const shared = { url, key, otherKey, moments: new Moments(), maxCalls: CALLS };
    const world: SessionWorld = { ...shared, done: [], sessions: [], sandboxes: [], calls: 0 };
    const runs = createActRandoms(random, HOSTS).map(async ({ name, own }) => {
      try {
        await new SessionHost(world, own, name).run();
      } catch (error) {
        world.calls = CALLS;
        throw error;
      }
    });
    const ends = await Promise.allSettled(runs);
    const faults = ends.flatMap((end) => (end.status === "rejected" ? [String(end.reason)] : []));
    expect(faults.length === 0 ? [] : [...faults, ...world.done.slice(-150)]).toEqual([]);
    for (const session of world.sessions) {
      if (session?.mayBeGone() !== false) continue;
      const opened = { url, key, session: session.id, revision: session.revision };
      // The streams that hosts left are over: another one can be opened, as soon as the service has
      // seen the end of the connection.
      const open = () => exchange({ ...opened, method: "GET" });
      let stream = await open();
      await expect
        .poll(async () => {
          if (stream.status === 409) stream = await open();
          return [session.id, stream.status];
        })
        .toEqual([session.id, 200]);
      const ended = await exchange({ ...opened, method: "DELETE" });
      expect(ended.status).toBe(200);
      await stream.over;
    }
    expect(home.stderr()).not.toMatch(/"level":"?(?:50|60|error|fatal)/);
  },
);
