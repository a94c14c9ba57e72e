/** A service whose clock differs from ours by hours: times are those of the service. */

import { expect, test } from "vitest";
import { createSystemClock, type Clock } from "../../../src/common/clock.ts";
import { SANDBOX_DETAIL } from "../../support/control/sandbox-detail.ts";
import { startForeignHost } from "../../support/mcp/foreign-host.ts";
import { answerJson, type RecordedRequest } from "../../support/network/recorder.ts";

const HOUR_MS = 3_600_000;
const LIFE_MS = 300_000;
/** What a slow machine takes for a call. */
const CLOSE_S = 20;

/** The service has the clock of this machine, by which its replies are dated, and ours is another. */
async function startApart(differenceMs: number) {
  const system = createSystemClock();
  const clock: Clock = { ...system, now: () => system.now() + differenceMs };
  const endAt = new Date(Date.now() + LIFE_MS).toISOString();
  const detail = { ...SANDBOX_DETAIL, envdAccessToken: "token-1", endAt };
  const answer = ({ method, url }: RecordedRequest) => {
    if (url.includes("/metrics")) return { status: 200, body: [] };
    if (url.endsWith("/fork")) return { status: 201, body: [{ sandbox: detail }] };
    return { status: method === "POST" ? 201 : 200, body: detail };
  };
  return startForeignHost(
    (request, response) => {
      const { status, body } = answer(request);
      answerJson(response, status, { body });
    },
    clock,
    detail,
  );
}

function secondsUntil(text: string): number {
  const at = /expires_at: (\S+)/.exec(text)?.[1] ?? "";
  return (Date.parse(at) - Date.now()) / 1_000;
}

test.for([2 * HOUR_MS, -2 * HOUR_MS, 30_000, -30_000])(
  "the life of a sandbox is told by the clock of its service, with ours %d ms ahead",
  async (differenceMs) => {
    await using remote = await startApart(differenceMs);
    const { text } = await remote.call("get_sandbox", {});
    const seconds = Number(/time_to_live_seconds: (\d+)/.exec(text)?.[1]);
    expect(seconds).toBeGreaterThan(LIFE_MS / 1_000 - CLOSE_S);
    expect(seconds).toBeLessThanOrEqual(LIFE_MS / 1_000 + 2);
  },
);

test.for([2 * HOUR_MS, -2 * HOUR_MS])(
  "links and ends of copies are of the service's time, with ours %d ms ahead",
  async (differenceMs) => {
    await using remote = await startApart(differenceMs);
    const link = await remote.call("download_url", { path: "/a", expires_seconds: 100 });
    const fork = await remote.call("fork_sandbox", { timeout_seconds: 100 });
    for (const { text } of [link, fork]) expect(secondsUntil(text)).toBeGreaterThan(100 - CLOSE_S);
    for (const { text } of [link, fork]) expect(secondsUntil(text)).toBeLessThanOrEqual(102);
    // The sandbox lives for longer than the link.
    expect(link.text).not.toContain("ends before that");
  },
);

test.for([2 * HOUR_MS, -2 * HOUR_MS])(
  "metrics are asked for by the service's time, with ours %d ms ahead",
  async (differenceMs) => {
    await using remote = await startApart(differenceMs);
    await remote.call("get_sandbox", {});
    await remote.call("get_metrics", { minutes: 1 });
    const asked = remote.recorder.requests.find(({ url }) => url.includes("/metrics"));
    const query = new URL(asked?.url ?? "", "http://localhost").searchParams;
    expect(Number(query.get("end"))).toBeGreaterThan(Date.now() / 1_000 - CLOSE_S);
    expect(Number(query.get("end"))).toBeLessThanOrEqual(Date.now() / 1_000 + 2);
  },
);
