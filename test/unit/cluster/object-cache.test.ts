/** Which of an object's replies and events count, in whatever order they come. */

import { expect, test } from "vitest";
import { createObjectCache } from "../../../src/cluster/api/object-cache.ts";

const version = (resourceVersion: string, uid = "one") => ({
  metadata: { name: "name", uid, resourceVersion },
});

test("a name of which nothing was known when it was not there can be taken later", () => {
  const cache = createObjectCache();
  cache.drop("name");
  cache.apply(version("5"));
  expect([...cache.items.values()]).toEqual([version("5")]);
});

test("an object that is gone does not come back by a late reply of any version", () => {
  const cache = createObjectCache();
  cache.apply(version("5"));
  cache.drop("name");
  cache.apply(version("6"));
  expect(cache.items.size).toBe(0);
  cache.drop("name", "7");
  cache.apply(version("6"));
  expect(cache.items.size).toBe(0);
});

test("another object of the name of one that is gone is known, and not gone by its end", () => {
  const cache = createObjectCache();
  cache.apply(version("5"));
  cache.drop("name");
  cache.apply(version("9", "two"));
  cache.drop("name", "7");
  expect([...cache.items.values()]).toEqual([version("9", "two")]);
});

test("an object that leaves a watch by its labels is known again when it comes back", () => {
  const cache = createObjectCache();
  cache.apply(version("5"));
  cache.drop("name", "7");
  cache.apply(version("6"));
  expect(cache.items.size).toBe(0);
  cache.apply(version("8"));
  expect([...cache.items.values()]).toEqual([version("8")]);
});
