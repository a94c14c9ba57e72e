/** Names that a sandbox chooses: many, long and unseen ones do not fill the context of a model. */

import { mkdir, symlink, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { startForeignHost } from "../../support/mcp/foreign-host.ts";
import { startMcpWorld } from "../../support/mcp/mcp-sandbox.ts";
import { answerJson } from "../../support/network/recorder.ts";

/** With the marks, the header and the last entry. */
const MAX_CHARACTERS = 110_000;
const UNSEEN = "\u200b".repeat(80);
const TARGET = `/${"target".repeat(680)}`;
const ENTRIES = 300;

const name = (index: number) => `${index}${UNSEEN}`.padStart(84, "0");

test("a listing ends where the reply is full, and its offset goes on", async () => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  const path = join(world.folder, "hostile");
  await mkdir(path);
  for (let index = 0; index < ENTRIES; index += 1) await symlink(TARGET, join(path, name(index)));
  const seen = new Set<string>();
  let offset = 0;
  for (let pages = 0; pages < 20 && offset >= 0; pages += 1) {
    const limit = 1_000;
    const { text } = await world.call("list_directory", { sandbox_id, path, offset, limit });
    expect(text.length).toBeLessThan(MAX_CHARACTERS);
    for (const [, number = ""] of text.matchAll(/hostile\/0*(\d+)\\u200b/g)) seen.add(number);
    offset = Number(/more: offset=(\d+)/.exec(text)?.[1] ?? -1);
  }
  expect(seen.size).toBe(ENTRIES);
});

test("changes that do not fit into one reply come with the next one", async () => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  const path = join(world.folder, "hostile");
  await mkdir(path);
  const call = (input: object) => world.call("watch_path", { sandbox_id, ...input });
  const { text: start } = await call({ path, wait_seconds: 0 });
  const watcher_id = /watcher_id: (\S+)/.exec(start)?.[1];
  for (let index = 0; index < ENTRIES; index += 1) await writeFile(join(path, name(index)), "x");
  const seen = new Set<string>();
  const look = async () => {
    const { text } = await call({ watcher_id, wait_seconds: 0 });
    expect(text.length).toBeLessThan(MAX_CHARACTERS);
    for (const [, number = ""] of text.matchAll(/create "0*(\d+)\\u200b/g)) seen.add(number);
    return seen.size;
  };
  await expect.poll(look, { timeout: 10_000 }).toBe(ENTRIES);
});

test("lines that are found count with their escapes", async () => {
  await using world = await startMcpWorld();
  const sandbox_id = await world.createSandbox();
  const path = join(world.folder, "hostile");
  await mkdir(path);
  const line = `needle${"\u0001".repeat(390)}\n`;
  await writeFile(join(path, "many.txt"), line.repeat(900));
  const { text } = await world.call("search_files", {
    sandbox_id,
    path,
    pattern: "needle",
    limit: 500,
  });
  expect(text).toContain("where the reply was full");
  expect(text.length).toBeLessThan(50_000);
});

function entryOf(index: number) {
  return {
    timestamp: new Date(1_000 + index).toISOString(),
    message: `record ${index} ${UNSEEN}${"x".repeat(2_000)}`,
    level: "info",
    fields: {},
  };
}

test("records that do not fit into one reply come with the next one", async () => {
  const all = Array.from({ length: 500 }, (_, index) => entryOf(index));
  await using remote = await startForeignHost(({ url }, response) => {
    const { searchParams } = new URL(url, "http://x");
    const start = Number(searchParams.get("start") ?? 0);
    const from = all.filter(({ timestamp }) => Date.parse(timestamp) >= start);
    const logEntries = from.slice(0, Number(searchParams.get("limit")));
    answerJson(response, 200, { body: { logs: [], logEntries } });
  });
  const seen = new Set<string>();
  let since: number | undefined;
  for (let pages = 0; pages < 20 && seen.size < all.length; pages += 1) {
    const { text } = await remote.call("get_logs", { limit: 1_000, since_ms: since });
    expect(text.length).toBeLessThan(130_000);
    for (const [, number = ""] of text.matchAll(/ record (\d+) /g)) seen.add(number);
    since = Number(/next since_ms: (\d+)/.exec(text)?.[1]);
  }
  expect(seen.size).toBe(all.length);
});

test.for([
  { limit: 300, count: 250, cut: "" },
  { limit: 300, count: 300, cut: " | further records of millisecond 1000 need a larger limit" },
  { limit: 1_000, count: 1_000, cut: " | further records of millisecond 1000 cannot be read" },
])("$count records of one millisecond are shown by limit=$limit", async ({ limit, count, cut }) => {
  const timestamp = new Date(1_000).toISOString();
  const ofMs = Array.from({ length: count }, (_, index) => ({ ...entryOf(index), timestamp }));
  const later = { ...entryOf(9_999), timestamp: new Date(1_001).toISOString() };
  await using remote = await startForeignHost(({ url }, response) => {
    const { searchParams } = new URL(url, "http://x");
    const start = Number(searchParams.get("start") ?? 0);
    const from = [...ofMs, later].filter((entry) => Date.parse(entry.timestamp) >= start);
    const logEntries = from.slice(0, limit);
    answerJson(response, 200, { body: { logs: [], logEntries } });
  });
  const { text } = await remote.call("get_logs", { limit });
  expect(text.length).toBeLessThan(130_000);
  const seen = new Set([...text.matchAll(/ record (\d+) /g)].map(([, number]) => Number(number)));
  expect(seen.size).toBe(count);
  const share = Math.floor(100_000 / count) - 1;
  const squeezed = `records are cut to ${share} characters: a smaller limit shows more of each`;
  const more = `${count} records | there may be more${cut} | ${squeezed} | next since_ms: 1001`;
  expect(text).toContain(more);
});
