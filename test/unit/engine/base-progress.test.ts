import { expect, test } from "vitest";
import { createBuildProgress } from "../../../src/engine/templates/base-progress.ts";

test("the rest is estimated by the clock, then by the phases, and never below nothing", () => {
  let nowMs = 0;
  const progress = createBuildProgress(0, () => nowMs);
  expect([progress.share(), progress.describe()]).toEqual([0, "about 60 s left"]);
  nowMs = 31_000;
  expect(progress.describe()).toBe("about 30 s left");
  progress.note("installing remaining packages inside the chroot...");
  nowMs = 32_000;
  expect([progress.share(), progress.describe()]).toEqual([32 / 62, "about 30 s left"]);
  progress.note("downloading packages with apt...");
  progress.note("anything else");
  expect(progress.describe()).toBe("about 30 s left");
  nowMs = 70_000;
  expect([progress.share(), progress.describe()]).toEqual([0.99, "70 s so far"]);
});

test("a clock that was set back makes nothing negative", () => {
  const progress = createBuildProgress(100_000, () => 0);
  expect([progress.share(), progress.describe()]).toEqual([0, "about 60 s left"]);
});
