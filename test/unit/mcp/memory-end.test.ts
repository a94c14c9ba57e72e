/** What the kernel's counter says about an end by SIGKILL, at the start, before and after the end. */

import { expect, test } from "vitest";
import { compare, grewMeanwhile } from "../../../src/mcp/replies/memory-end.ts";

test.for([
  { start: undefined, before: undefined, after: undefined, verdict: "unknown" },
  { start: 0, before: 0, after: undefined, verdict: "unknown" },
  { start: 0, before: 0, after: 0, verdict: "other cause" },
  { start: undefined, before: undefined, after: 0, verdict: "other cause" },
  { start: 0, before: 0, after: 1, verdict: "out of memory" },
  { start: undefined, before: 2, after: 3, verdict: "out of memory" },
  // A boot between two samples begins to count anew.
  { start: 4, before: 4, after: 1, verdict: "out of memory" },
  { start: 3, before: 3, after: 3, verdict: "other cause" },
  // A kill during its life, but earlier than its end: a child of it, or another process.
  { start: 1, before: 3, after: 3, verdict: "unknown" },
  { start: undefined, before: 1, after: 1, verdict: "unknown" },
  { start: undefined, before: undefined, after: 1, verdict: "unknown" },
])("$start, $before, $after: $verdict", ({ verdict, ...kills }) => {
  expect(compare(kills)).toBe(verdict);
});

test.for([
  { start: undefined, after: 1, hasGrown: false },
  { start: 0, after: undefined, hasGrown: false },
  { start: 0, after: 0, hasGrown: false },
  { start: 2, after: 2, hasGrown: false },
  { start: 0, after: 1, hasGrown: true },
  { start: 2, after: 1, hasGrown: true },
  { start: 2, after: 0, hasGrown: false },
])("$start at the start, $after at the end: grew $hasGrown", ({ start, after, hasGrown }) => {
  expect(grewMeanwhile({ start, before: start, after })).toBe(hasGrown);
});
