/** The replies that a session keeps for a host that asks for them again. */

import { expect, test } from "vitest";
import { createKeptReplies, type SessionReplies } from "../../../src/mcp/http/kept-replies.ts";

const replyOf = (id: number, text = "") =>
  ({ jsonrpc: "2.0", id, result: { content: [{ type: "text", text }] } }) as const;

async function missedOf(kept: SessionReplies, lastEventId: string) {
  const missed: unknown[] = [];
  const send = async (_id: string, message: object) => {
    if ("result" in message && "id" in message) missed.push(message.id);
  };
  return { streamId: await kept.replayEventsAfter(lastEventId, { send }), missed };
}

test("what came after an event of a stream is sent, of this stream alone, progress not", async () => {
  const kept = createKeptReplies().open();
  const first = await kept.storeEvent("one", replyOf(1));
  const progress = { jsonrpc: "2.0", method: "notifications/progress" } as const;
  await kept.storeEvent("one", progress);
  await kept.storeEvent("two", replyOf(2));
  const last = await kept.storeEvent("one", replyOf(3));
  expect(await missedOf(kept, first)).toEqual({ streamId: "one", missed: [3] });
  expect(await missedOf(kept, last)).toEqual({ streamId: "one", missed: [] });
  expect(await missedOf(kept, "nothing")).toMatchObject({ missed: [] });
});

test("of many and of large replies the newest are kept", async () => {
  const kept = createKeptReplies().open();
  for (let id = 1; id <= 40; id += 1) await kept.storeEvent("one", replyOf(id));
  const { missed } = await missedOf(kept, "0:one");
  expect([missed.length, missed[0]]).toEqual([32, 9]);
  await kept.storeEvent("one", replyOf(41, "x".repeat(2 * 1024 * 1024)));
  expect((await missedOf(kept, "0:one")).missed).toEqual([41]);
});

test("a reply that is no longer kept is an error in its place, in the order of replies", async () => {
  const kept = createKeptReplies().open();
  for (let id = 1; id <= 600; id += 1) await kept.storeEvent(`of ${id % 2}`, replyOf(id));
  const sent: { readonly number: number; readonly message: object }[] = [];
  const send = async (id: string, message: object) =>
    void sent.push({ number: Number.parseInt(id, 10), message });
  await kept.replayEventsAfter("500:of 1", { send });
  expect(sent.map(({ number }) => number)).toEqual(
    Array.from({ length: 50 }, (_, at) => 501 + 2 * at),
  );
  const error = { code: -32_000, message: expect.stringContaining("no longer kept") };
  expect(sent[0]?.message).toEqual({ jsonrpc: "2.0", id: 501, error });
  expect(sent.at(-1)?.message).toEqual(replyOf(599));
  sent.length = 0;
  await kept.replayEventsAfter("0:of 1", { send });
  // 32 replies and 256 errors before them, of both streams.
  expect([sent.length, sent[0]?.number]).toEqual([144, 313]);
  kept.forget();
  expect(await missedOf(kept, "0:of 1")).toMatchObject({ missed: [] });
});

test("nothing of a reply is kept in its place whose id is long", async () => {
  const kept = createKeptReplies().open();
  const ids = ["a".repeat(256), "b".repeat(257), "c"];
  for (const id of ids) await kept.storeEvent("one", { jsonrpc: "2.0", id, result: {} });
  for (let id = 1; id <= 32; id += 1) await kept.storeEvent("two", replyOf(id));
  const sent: unknown[] = [];
  const send = async (_id: string, message: object) =>
    void sent.push("id" in message && message.id);
  await kept.replayEventsAfter("0:one", { send });
  expect(sent).toEqual([ids[0], "c"]);
});

test("all sessions together keep so much, the newest replies; an ended session keeps nothing", async () => {
  const replies = createKeptReplies();
  const sessions = Array.from({ length: 100 }, () => replies.open());
  const held = async () => {
    const all = await Promise.all(sessions.map(async (kept) => missedOf(kept, "0:one")));
    return all.map(({ missed }) => missed.length);
  };
  const text = "x".repeat(500_000);
  for (const kept of sessions) {
    await kept.storeEvent("one", replyOf(1, text));
    await kept.storeEvent("one", replyOf(2, text));
  }
  expect(await held()).toEqual(sessions.map((_, index) => (index < 83 ? 0 : index === 83 ? 1 : 2)));
  for (const kept of sessions.slice(90)) kept.forget();
  for (const kept of sessions.slice(90)) await kept.storeEvent("one", replyOf(3, text));
  for (const kept of sessions.slice(0, 20)) await kept.storeEvent("one", replyOf(3, text));
  const counts = await held();
  expect([counts.slice(0, 20), counts.slice(90)]).toEqual([Array(20).fill(1), Array(10).fill(0)]);
  expect(counts.slice(83, 90)).toEqual([1, 2, 2, 2, 2, 2, 2]);
});
