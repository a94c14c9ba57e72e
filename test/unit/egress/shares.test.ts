/** Places that sandboxes share: nobody takes the last one. */

import { expect, test } from "vitest";
import { createPolicies } from "../../../src/egress/policies.ts";
import { createShares } from "../../../src/egress/shares.ts";

function takeAll(take: () => unknown): number {
  let count = 0;
  while (count < 10_000 && take() !== undefined) count += 1;
  return count;
}

test("one sandbox has no more than its own limit", () => {
  const shares = createShares({ ofOne: 3, ofAll: 100 });
  expect(takeAll(() => shares.take("a"))).toBe(3);
  expect(takeAll(() => shares.take("b"))).toBe(3);
});

test("sandboxes that take all they can leave a part to the next one", () => {
  const shares = createShares({ ofOne: 512, ofAll: 1_000 });
  const taken = ["a", "b", "c", "d"].map((sender) => takeAll(() => shares.take(sender)));
  expect(taken).toEqual([500, 250, 125, 63]);
  expect(takeAll(() => shares.take("e"))).toBe(31);
});

test("what is given back twice is given back once", () => {
  const shares = createShares({ ofOne: 2, ofAll: 100 });
  const giveBack = shares.take("a");
  shares.take("a");
  giveBack?.();
  giveBack?.();
  expect(takeAll(() => shares.take("a"))).toBe(1);
});

test("eight sandboxes with all the connections they may have leave some to a ninth", () => {
  const policies = createPolicies();
  const hold = (sender: string) => policies.hold(sender, { name: undefined, end() {} });
  for (let index = 0; index < 8; index += 1) takeAll(() => hold(`198.18.0.${index}`));
  expect(takeAll(() => hold("198.18.0.9"))).toBeGreaterThan(10);
});

test("a sandbox that is forgotten ends what it holds, and holds nothing then", () => {
  const policies = createPolicies();
  const ended: string[] = [];
  const releases = ["first", "second"].map((name) =>
    policies.hold("198.18.0.1", { name: undefined, end: () => void ended.push(name) }),
  );
  policies.replace("198.18.0.1", null);
  expect(ended).toEqual(["first", "second"]);
  for (const release of releases) release?.();
  policies.replace("198.18.0.1", null);
  expect(ended).toHaveLength(2);
});
