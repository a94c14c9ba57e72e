/** What is told of a sandbox that was gone when the service started. */

import { expect, test } from "vitest";
import { lostReason } from "../../../src/sandboxes/reclaim/lost-reason.ts";

const LIFE = {
  state: "running",
  pausesAtTimeout: false,
  startedAtMs: 1_000,
  endAtMs: 2_000,
} as const;

test.for([
  {
    name: "in its time, on a machine that ran on",
    nowMs: 1_500,
    bootedAtMs: 500,
    reason: "host_restart",
  },
  {
    name: "after its time, on a machine that ran on",
    nowMs: 3_000,
    bootedAtMs: 500,
    reason: "timeout",
  },
  {
    name: "at its end, on a machine that ran on",
    nowMs: 2_000,
    bootedAtMs: 500,
    reason: "timeout",
  },
  {
    name: "after its time, of a machine that started in it",
    nowMs: 3_000,
    bootedAtMs: 1_500,
    reason: "host_restart",
  },
  {
    name: "after its time, of a machine that started then",
    nowMs: 3_000,
    bootedAtMs: 2_500,
    reason: "timeout",
  },
])("the service starts $name → $reason", ({ nowMs, bootedAtMs, reason }) => {
  expect(lostReason(LIFE, { nowMs, bootedAtMs })).toBe(reason);
});

test.for([
  { name: "is paused", changes: { state: "paused" } },
  { name: "is paused at its time", changes: { pausesAtTimeout: true } },
] as const)("one that $name does not expire", ({ changes }) => {
  expect(lostReason({ ...LIFE, ...changes }, { nowMs: 3_000, bootedAtMs: 500 })).toBe(
    "host_restart",
  );
});

test.for([
  { changes: { state: "ending", endReason: "request" }, reason: "request" },
  { changes: { state: "ending", endReason: "out of memory" }, reason: "out of memory" },
  { changes: { state: "ending" }, reason: "host_restart" },
  { changes: { state: "pooled" }, reason: "service end" },
  { changes: { state: "running", endReason: "request" }, reason: "timeout" },
] as const)("one of which the row says $changes → $reason", ({ changes, reason }) => {
  expect(lostReason({ ...LIFE, ...changes }, { nowMs: 3_000, bootedAtMs: 500 })).toBe(reason);
});
