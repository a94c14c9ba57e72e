/** What a start does with a store of another size than it asks for. */

import { expect, test } from "vitest";
import { planGrowth } from "../../../src/engine/storage/store-growth.ts";

const GIB = 1024 ** 3;
/** Made with 8 GiB: four groups. */
const GROUP_BYTES = 2 * GIB;

test.for([
  { has: 16 * GIB, wantedGb: 8, plan: "keep" },
  { has: 8 * GIB, wantedGb: 8, plan: "keep" },
  // A last group that would be too small was left out.
  { has: 8 * GIB - 15 * 1024 ** 2, wantedGb: 8, plan: "keep" },
  { has: 8 * GIB, wantedGb: 9, plan: "grow" },
  { has: 8 * GIB, wantedGb: 32_768, plan: "grow" },
] as const)("$wantedGb GiB for a store of $has bytes: $plan", ({ has, wantedGb, plan }) => {
  expect(planGrowth({ bytes: has, groupBytes: GROUP_BYTES }, wantedGb)).toBe(plan);
});

test("a store of more groups than each mount can read is refused", () => {
  expect(planGrowth({ bytes: 8 * GIB, groupBytes: GROUP_BYTES }, 32_769)).toMatchObject({
    message: "the store can grow to 32768 GiB at most",
    hint: "choose a smaller --store-gb",
  });
});
