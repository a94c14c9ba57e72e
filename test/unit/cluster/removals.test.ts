/** Removals of images: some fail forever, and none of the others waits for them. */

import { expect, test } from "vitest";
import { createRemovals } from "../../../src/cluster/snapshots/removals.ts";

/** Looks at removals of which those with these names fail, each time until all that was begun has ended. */
function open(failing: ReadonlySet<string>, graceShare: number) {
  const tried: string[] = [];
  const faults: string[] = [];
  let begun: Promise<void>[] = [];
  const removals = createRemovals({
    track(work) {
      begun.push(work);
      return work;
    },
    onFault: (buildId) => void faults.push(buildId),
    graceShare,
  });
  const toRemoval = (buildId: string) => ({
    buildId,
    async run() {
      tried.push(buildId);
      if (failing.has(buildId)) throw new Error("planned");
    },
  });
  const look = async (...names: string[]) => {
    const from = tried.length;
    removals.look(names.map((name) => toRemoval(name)));
    await Promise.all(begun);
    begun = [];
    return tried.slice(from);
  };
  return { look, faults };
}

test("those that fail go behind the others, and are tried again later", async () => {
  const { look, faults } = open(new Set(["a", "b", "c", "d"]), 1);
  const names = ["a", "b", "c", "d", "e", "f", "g", "h", "i"];
  expect(await look(...names)).toEqual(["a", "b", "c", "d"]);
  expect(await look(...names)).toEqual(["e", "f", "g", "h"]);
  expect(await look("a", "b", "c", "d", "i")).toEqual(["i"]);
  expect(await look("a", "b", "c", "d")).toEqual([]);
  expect(faults).toEqual(["a", "b", "c", "d"]);
});

test("those whose wait is over begin with the one that was tried longest ago", async () => {
  const { look } = open(new Set(["a", "b", "c", "d", "e"]), 0);
  const names = ["a", "b", "c", "d", "e"];
  expect(await look(...names)).toEqual(["a", "b", "c", "d"]);
  expect(await look(...names)).toEqual(["e", "a", "b", "c"]);
  expect(await look(...names)).toEqual(["d", "e", "a", "b"]);
});

test("what is under way is begun once, and four at once at most", () => {
  const begun: string[] = [];
  const { promise } = Promise.withResolvers<void>();
  const removals = createRemovals({
    track: async () => undefined,
    onFault: () => undefined,
  });
  const due = ["a", "b", "c", "d", "e"].map((buildId) => ({
    buildId,
    async run() {
      begun.push(buildId);
      await promise;
    },
  }));
  removals.look(due);
  removals.look(due);
  expect(begun).toEqual(["a", "b", "c", "d"]);
});

test("one that is no longer due begins anew when it is due again", async () => {
  const { look } = open(new Set(["a"]), 1);
  expect(await look("a")).toEqual(["a"]);
  expect(await look("a")).toEqual([]);
  expect(await look()).toEqual([]);
  expect(await look("a")).toEqual(["a"]);
});
