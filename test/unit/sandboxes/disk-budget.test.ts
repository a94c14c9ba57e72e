/** What may still be written when a disk is nearly full. */

import { describe, expect, test } from "vitest";
import {
  divideAll,
  nextLookMs,
  planBudget,
  promisedOf,
  reserveOf,
  type GrowingImage,
} from "../../../src/sandboxes/disks/disk-budget.ts";
import { createRandom, printedSeed } from "../../support/random.ts";

const GIB = 1024 ** 3;
const MIB = 1024 ** 2;
const TOTAL = 10 * GIB;
const FREE = { isLimited: false, copyBytes: 0 };

function image(name: string, changes: Partial<GrowingImage> = {}): GrowingImage {
  return { name, usedBytes: 0, hostBytes: 0, isGrowing: false, ...changes };
}

test("the reserve is a twentieth of the disk, at least 1 GiB", () => {
  expect([reserveOf(10 * GIB), reserveOf(100 * GIB)]).toEqual([GIB, 5 * GIB]);
});

test("what is in memory only, or allocated and not written, is promised", () => {
  expect(promisedOf({ usedBytes: 5, hostBytes: 3 })).toBe(2);
  expect(promisedOf({ usedBytes: 3, hostBytes: 5 })).toBe(0);
});

test.for([
  { freeBytes: 3 * GIB, isLimited: false, isFull: false, hasSpace: true },
  { freeBytes: GIB - 1, isLimited: true, isFull: false, hasSpace: true },
  { freeBytes: 0.7 * GIB, isLimited: true, isFull: false, hasSpace: false },
  { freeBytes: 0.4 * GIB, isLimited: true, isFull: true, hasSpace: false },
])("$freeBytes bytes free", ({ freeBytes, ...expected }) => {
  const budget = planBudget({ freeBytes, totalBytes: TOTAL }, [image("a")], FREE);
  expect(budget).toMatchObject(expected);
});

test("promises and copies under way count as taken", () => {
  const space = { freeBytes: 3 * GIB, totalBytes: TOTAL };
  const images = [image("a", { usedBytes: GIB })];
  const budget = planBudget(space, images, { isLimited: false, copyBytes: GIB / 2 });
  expect(budget.spareBytes).toBe(1.5 * GIB);
});

test("limits stay until there is a tenth more than the reserve", () => {
  const space = { freeBytes: 1.05 * GIB, totalBytes: TOTAL };
  expect(planBudget(space, [], FREE).isLimited).toBe(false);
  expect(planBudget(space, [], { ...FREE, isLimited: true }).isLimited).toBe(true);
});

test("a large disk is limited for want of gigabytes, not of a share", () => {
  const totalBytes = 4096 * GIB;
  const plan = (freeBytes: number) => planBudget({ freeBytes, totalBytes }, [image("a")], FREE);
  expect(plan(40 * GIB)).toMatchObject({ isLimited: false, isFull: false, hasSpace: true });
  expect(plan(15 * GIB)).toMatchObject({ isLimited: true, isFull: false });
  expect(plan(7 * GIB)).toMatchObject({ isLimited: true, isFull: true });
});

/** Services of one home, each with one image, and what they know of each other. */
function otherImagesOf(images: readonly GrowingImage[], limits: readonly number[], self: number) {
  const others = images.map((of, index) => ({ of, limit: limits[index] ?? 0, index }));
  const rest = others.filter(({ index }) => index !== self);
  return {
    services: rest.length,
    promisedBytes: rest.reduce((sum, { of }) => sum + promisedOf(of), 0),
    grantedBytes: rest.reduce((sum, { limit }) => sum + limit, 0),
  };
}

test("R16 several services of a home never grant more than there is, whoever looks when", () => {
  const random = createRandom(printedSeed("several services"));
  for (let round = 0; round < 100; round += 1) {
    const space = { freeBytes: (300 + random.below(700)) * MIB, totalBytes: TOTAL };
    const images = Array.from({ length: 2 + random.below(4) }, (_, index) => image(`${index}`));
    const limits = images.map(() => 0);
    for (let turn = 0; turn < 200; turn += 1) {
      const at = random.below(images.length);
      const [own = image(""), limit = 0] = [images[at], limits[at]];
      // Programs write as much as they may; nothing is written back meanwhile.
      const bytes = random.below(2) * limit;
      images[at] = { ...own, usedBytes: own.usedBytes + bytes };
      limits[at] = limit - bytes;
      const looking = random.below(images.length);
      const others = otherImagesOf(images, limits, looking);
      const mine = images[looking] ?? own;
      const before = { isLimited: true, copyBytes: 0, others };
      const plan = random.below(2) === 0 ? planBudget(space, [mine], before).limits : undefined;
      limits[looking] = (plan ?? divideAll(space, [mine], others)).get(mine.name) ?? 0;
      const taken = images.reduce((sum, of) => sum + promisedOf(of), 0);
      const granted = limits.reduce((sum, of) => sum + of, 0);
      expect(taken + granted).toBeLessThanOrEqual(space.freeBytes - 0.25 * GIB);
    }
  }
});

describe("division", () => {
  test("what is written to gets the larger share", () => {
    const space = { freeBytes: 0.75 * GIB, totalBytes: TOTAL };
    const images = [image("a", { isGrowing: true }), image("b"), image("c")];
    const { limits } = planBudget(space, images, FREE);
    expect([...limits]).toEqual([
      ["a", 384 * MIB],
      ["b", 64 * MIB],
      ["c", 64 * MIB],
    ]);
  });

  test("R16 limits and promises together never exceed what is above the floor", () => {
    const random = createRandom(printedSeed("disk budget"));
    for (let round = 0; round < 100; round += 1) {
      const space = { freeBytes: random.below(2000) * MIB, totalBytes: TOTAL };
      const images = Array.from({ length: random.below(600) }, (_, index) =>
        image(String(index), {
          usedBytes: random.below(20) * MIB,
          hostBytes: random.below(20) * MIB,
          isGrowing: random.once(3),
        }),
      );
      const promised = images.reduce((sum, one) => sum + promisedOf(one), 0);
      const before = { isLimited: true, copyBytes: random.below(100) * MIB };
      for (const limits of [planBudget(space, images, before).limits, divideAll(space, images)]) {
        const granted = [...limits.values()].reduce((sum, bytes) => sum + bytes, 0);
        const floor = reserveOf(TOTAL) / 4;
        expect(granted).toBeLessThanOrEqual(Math.max(space.freeBytes - promised - floor, 0));
      }
    }
  });
});

function look(freeBytes: number): number {
  const space = { freeBytes, totalBytes: TOTAL };
  return nextLookMs(space, planBudget(space, [], FREE), { lastMs: 50, isGrowing: false });
}

test("the next look comes before what is above the reserve can be written", () => {
  expect(look(9.9 * GIB)).toBe(2_000);
  expect(look(2 * GIB)).toBe(250);
  expect(look(1.01 * GIB)).toBe(25);
  expect(look(0.9 * GIB)).toBe(100);
});
