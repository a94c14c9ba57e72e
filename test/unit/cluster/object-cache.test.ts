/** The objects of a watch and of our own calls, whichever comes first. */

import { expect, test } from "vitest";
import { createObjectCache, isNewer } from "../../../src/cluster/object-cache.ts";

const item = (name: string, resourceVersion: string, text = "") => ({
  metadata: { name, resourceVersion },
  text,
});

test("an older version replaces no newer one, also with more digits", () => {
  const cache = createObjectCache<ReturnType<typeof item>>();
  cache.apply(item("a", "10", "new"));
  cache.apply(item("a", "9", "old"));
  expect(cache.items.get("a")?.text).toBe("new");
  expect([isNewer("99999999999999999999", "9"), isNewer("9", "10")]).toEqual([true, false]);
});

test("what is gone does not come back by a late reply", () => {
  const cache = createObjectCache<ReturnType<typeof item>>();
  cache.apply(item("a", "1"));
  cache.drop("a");
  cache.apply(item("a", "2"));
  expect(cache.items.has("a")).toBe(false);
});

test("what is gone at a version comes back as a newer object of its name alone", () => {
  const cache = createObjectCache<ReturnType<typeof item>>();
  cache.apply(item("a", "3"));
  cache.drop("a", "2");
  expect(cache.items.has("a")).toBe(true);
  cache.drop("a", "5");
  cache.apply(item("a", "4"));
  expect(cache.items.has("a")).toBe(false);
  cache.apply(item("a", "6"));
  expect(cache.items.has("a")).toBe(true);
  cache.drop("a");
  cache.drop("a", "7");
  cache.apply(item("a", "8"));
  expect(cache.items.has("a")).toBe(false);
});

test("a wait ends with the first answer, with a fault, or with its signal", async () => {
  const cache = createObjectCache<ReturnType<typeof item>>();
  const { signal } = new AbortController();
  const waiting = cache.until("a", (found) => found?.text || undefined, signal);
  cache.apply(item("b", "1", "other"));
  cache.apply(item("a", "2"));
  cache.apply(item("a", "3", "here"));
  expect(await waiting).toBe("here");
  const failing = cache.until(
    "c",
    (found) => {
      if (found !== undefined) throw new Error("planned");
      return undefined;
    },
    signal,
  );
  cache.apply(item("c", "4"));
  await expect(failing).rejects.toThrow("planned");
  const aborted = cache.until("d", () => undefined, AbortSignal.abort());
  await expect(aborted).rejects.toMatchObject({ code: "canceled" });
});
