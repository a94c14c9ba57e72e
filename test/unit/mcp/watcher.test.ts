/** Events that a watcher holds until they are told. */

import { expect, test } from "vitest";
import type { WatchEvent } from "../../../src/client/filesystem.ts";
import { holdEvents } from "../../../src/mcp/watch/watcher.ts";

test("of more events than are held, in one reply of a daemon, the newest stay", () => {
  const state = { hasLost: false, isOver: false };
  const held: WatchEvent[] = [];
  const watcher = { held, ...state };
  const events = Array.from({ length: 200_000 }, (_, index) => ({
    name: String(index),
    type: "write" as const,
  }));
  holdEvents(watcher, events);
  expect([held.length, held[0]?.name, watcher.hasLost]).toEqual([10_000, "190000", true]);
});
