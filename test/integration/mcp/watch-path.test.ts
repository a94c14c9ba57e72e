/** watch_path where calls are cancelled, end the watcher, or get no reply of the daemon. */

import type { ServerResponse } from "node:http";
import { expect, test } from "vitest";
import { createSystemClock, type Clock } from "../../../src/common/clock.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { startForeignHost } from "../../support/mcp/foreign-host.ts";
import { answerJson } from "../../support/network/recorder.ts";

const CREATED = { name: "made", type: "EVENT_TYPE_CREATE" };
const MOVED = { name: ".", type: "EVENT_TYPE_RENAME" };
const HOUR_MS = 3_600_000;
const WATCHER = { watcher_id: "w1", wait_seconds: 0 };

type Reply = (response: ServerResponse) => void;
type Method = "CreateWatcher" | "GetWatcherEvents" | "RemoveWatcher";

function reply(body: unknown, status = 200): Reply {
  return (response) => answerJson(response, status, { body });
}

const none = reply({ events: [] });
const lost: Reply = (response) => response.destroy();

/** A daemon that gives the replies of each call in turn, and the last one again. */
async function startDaemon(
  replies: Partial<Record<Method, readonly Reply[]>>,
  clock: Clock = createSystemClock(),
) {
  const left: Record<Method, Reply[]> = {
    CreateWatcher: [...(replies.CreateWatcher ?? [reply({ watcherId: "w1" })])],
    GetWatcherEvents: [...(replies.GetWatcherEvents ?? [none])],
    RemoveWatcher: [...(replies.RemoveWatcher ?? [reply({})])],
  };
  const methods: string[] = [];
  const foreign = await startForeignHost(({ url }, response) => {
    const method = url.slice(url.lastIndexOf("/") + 1);
    methods.push(method);
    const known = Object.entries(left).find(([name]) => name === method)?.[1] ?? [];
    const next = known.length > 1 ? known.shift() : known[0];
    (next ?? reply({}, 404))(response);
  }, clock);
  return { ...foreign, methods };
}

/** A reply that the test gives later. */
function createHeld() {
  const { promise: asked, resolve } = Promise.withResolvers<ServerResponse>();
  return { asked, hold: (response: ServerResponse) => resolve(response) };
}

test("changes that come for a cancelled call are told by the next one", async () => {
  const held = createHeld();
  await using daemon = await startDaemon({ GetWatcherEvents: [none, held.hold, none] });
  await daemon.call("watch_path", { path: "/a", wait_seconds: 0 });
  const cancel = new AbortController();
  const cancelled = daemon.call("watch_path", WATCHER, { signal: cancel.signal });
  const response = await held.asked;
  cancel.abort();
  await expect(cancelled).rejects.toThrow("abort");
  const next = daemon.call("watch_path", WATCHER);
  reply({ events: [CREATED] })(response);
  expect((await next).text).toMatch(/^watcher_id: w1 \| 1 changes [^]*\ncreate made\n/);
});

test("a cancelled call that took a watcher over leaves its changes to the next one", async () => {
  const held = createHeld();
  await using daemon = await startDaemon({ GetWatcherEvents: [held.hold, none] });
  const cancel = new AbortController();
  const cancelled = daemon.call("watch_path", WATCHER, { signal: cancel.signal });
  const response = await held.asked;
  cancel.abort();
  await expect(cancelled).rejects.toThrow("abort");
  // The server has the cancellation before a message that comes after it.
  await daemon.host.client.ping();
  reply({ events: [CREATED] })(response);
  expect((await daemon.call("watch_path", WATCHER)).text).toContain("create made");
});

test("of a watcher that another server had, changes may be missing: it may have fetched some", async () => {
  const told = "changes may be missing: list the directory";
  await using daemon = await startDaemon({
    GetWatcherEvents: [reply({ events: [CREATED] }), none],
  });
  expect((await daemon.call("watch_path", WATCHER)).text).toContain(told);
  expect((await daemon.call("watch_path", WATCHER)).text).not.toContain(told);
});

test("a second call beside a waiting one is refused and takes nothing", async () => {
  const held = createHeld();
  await using daemon = await startDaemon({ GetWatcherEvents: [none, held.hold, none] });
  await daemon.call("watch_path", { path: "/a", wait_seconds: 0 });
  const waiting = daemon.call("watch_path", WATCHER);
  const response = await held.asked;
  const second = await daemon.call("watch_path", { ...WATCHER, close: true });
  expect(second.text).toMatch(
    /^failed_precondition: another call waits on watcher w1\. Wait for the reply of that call/,
  );
  reply({ events: [CREATED] })(response);
  expect((await waiting).text).toContain("create made");
  expect(daemon.methods).not.toContain("RemoveWatcher");
});

test("changes are told though the watcher cannot be ended, and it can be ended later", async () => {
  await using daemon = await startDaemon({
    GetWatcherEvents: [none, reply({ events: [CREATED] }), none],
    RemoveWatcher: [reply({ code: "internal", message: "broken" }, 500), reply({})],
  });
  await daemon.call("watch_path", { path: "/a", wait_seconds: 0 });
  const first = await daemon.call("watch_path", { ...WATCHER, close: true });
  expect(first.text).toMatch(/\| 1 changes \| watcher not ended: .*close=true[^]*create made/);
  const second = await daemon.call("watch_path", { ...WATCHER, close: true });
  expect(second.text).toMatch(/\| no change \| watcher ended/);
});

test("a call that only ends a watcher waits for no change", async () => {
  // Its clock never moves: a wait would have no end.
  await using daemon = await startDaemon({}, createFakeClock());
  await daemon.call("watch_path", { path: "/a", wait_seconds: 0 });
  const closing = await daemon.call("watch_path", { watcher_id: "w1", close: true });
  expect(closing.text).toMatch(/\| no change \| watcher ended/);
});

test("a call that is cancelled while it ends its watcher leaves the changes", async () => {
  const held = createHeld();
  const gone = reply({ code: "not_found", message: "no watcher" }, 404);
  await using daemon = await startDaemon({
    GetWatcherEvents: [none, reply({ events: [CREATED] }), gone],
    RemoveWatcher: [held.hold],
  });
  await daemon.call("watch_path", { path: "/a", wait_seconds: 0 });
  const cancel = new AbortController();
  const close = { ...WATCHER, close: true };
  const cancelled = daemon.call("watch_path", close, { signal: cancel.signal });
  const response = await held.asked;
  cancel.abort();
  await expect(cancelled).rejects.toThrow("abort");
  reply({})(response);
  await expect
    .poll(async () => (await daemon.call("watch_path", close)).text)
    .toMatch(/\| 1 changes \| watcher ended [^]*create made/);
  expect((await daemon.call("watch_path", close)).text).toMatch(/^not_found: /);
});

test("a reply of the daemon that does not arrive may have had changes", async () => {
  await using daemon = await startDaemon({ GetWatcherEvents: [none, lost, none] });
  await daemon.call("watch_path", { path: "/a", wait_seconds: 0 });
  expect((await daemon.call("watch_path", WATCHER)).text).toMatch(/^unavailable: /);
  const next = await daemon.call("watch_path", WATCHER);
  expect(next.text).toContain("| no change | changes may be missing: list the directory |");
  expect((await daemon.call("watch_path", WATCHER)).text).not.toContain("missing");
});

test("a watcher whose id no caller learns is removed", async () => {
  const held = createHeld();
  await using daemon = await startDaemon({ CreateWatcher: [held.hold] });
  const cancel = new AbortController();
  const path = { path: "/a", wait_seconds: 0 };
  const cancelled = daemon.call("watch_path", path, { signal: cancel.signal });
  const response = await held.asked;
  cancel.abort();
  await expect(cancelled).rejects.toThrow("abort");
  reply({ watcherId: "w1" })(response);
  await expect.poll(() => daemon.methods).toContain("RemoveWatcher");
});

test("a moved directory is told at once, by every call", async () => {
  await using daemon = await startDaemon({
    GetWatcherEvents: [none, reply({ events: [MOVED] }), none],
  });
  await daemon.call("watch_path", { path: "/a", wait_seconds: 0 });
  const long = { ...WATCHER, wait_seconds: 50 };
  expect((await daemon.call("watch_path", long)).text).toContain("itself was moved");
  expect((await daemon.call("watch_path", long)).text).toMatch(/no change \| .*itself was moved/);
});

test("a wall clock that is set back prolongs no call, and one that is set on ends no watcher", async () => {
  const clock = createFakeClock();
  await using daemon = await startDaemon({}, clock);
  await daemon.call("watch_path", { path: "/a", wait_seconds: 0 });
  const waiting = daemon.call("watch_path", { ...WATCHER, wait_seconds: 1 });
  const fetches = () => daemon.methods.filter((method) => method === "GetWatcherEvents").length;
  await expect.poll(fetches).toBe(2);
  clock.set(clock.now() - HOUR_MS);
  let isOver = false;
  const over = waiting.finally(() => {
    isOver = true;
  });
  await expect
    .poll(
      async () => {
        await clock.advance(250);
        return isOver || clock.elapsed() > HOUR_MS;
      },
      { interval: 5 },
    )
    .toBe(true);
  expect((await over).text).toContain("| no change |");
  clock.set(clock.now() + HOUR_MS);
  await clock.advance(60_000);
  expect(daemon.methods).not.toContain("RemoveWatcher");
});

test("a refusal at the limit names the watchers that can be ended", async () => {
  const made = Array.from({ length: 64 }, (_, index) => reply({ watcherId: `w${index}` }));
  await using daemon = await startDaemon({ CreateWatcher: made });
  const watch = { path: "/a", wait_seconds: 0 };
  for (const _ of made) await daemon.call("watch_path", watch);
  const refused = await daemon.call("watch_path", watch);
  const [, told = ""] =
    /longest unused (\w+), \w+, \w+; each ends after 10 minutes/.exec(refused.text) ?? [];
  expect(refused.text).toMatch(/^resource_exhausted: 64 watchers exist, the limit[.] End one with/);
  await daemon.call("watch_path", { watcher_id: told, wait_seconds: 0, close: true });
  expect((await daemon.call("watch_path", watch)).text).toMatch(/^watcher_id: w63 /);
});
