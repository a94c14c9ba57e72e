/** Which keys of creates the leading front removes, whatever its clock shows. */

import { expect, test } from "vitest";
import { creationDuties } from "../../../src/cluster/pods/creation-duties.ts";
import { storedCreationSchema, creationName } from "../../../src/cluster/pods/creations.ts";
import { createFakeClock } from "../../support/fake-clock.ts";

const DAY_MS = 86_400_000;
const MADE_AT_MS = Date.parse("2026-01-01T00:00:00Z");

/** A kept key that was made then, by the clock of the API server. */
function storedKey() {
  const key = { team: "local", key: "one" };
  const creation = {
    ...key,
    fingerprint: "f",
    createdAtMs: MADE_AT_MS,
    owner: "front",
    attempt: "attempt",
    sandbox: null,
    isKept: true,
  };
  const creationTimestamp = new Date(MADE_AT_MS).toISOString();
  return storedCreationSchema.parse({
    metadata: { name: creationName(key), uid: "uid", resourceVersion: "1", creationTimestamp },
    data: { creation: JSON.stringify(creation) },
  });
}

test.for([
  { front: "has the same clock", aheadMs: 60_000, hasLasted: false, duties: 0 },
  { front: "sees it a day later", aheadMs: DAY_MS + 1, hasLasted: false, duties: 1 },
  { front: "has a clock far behind", aheadMs: -100 * DAY_MS, hasLasted: false, duties: 0 },
  { front: "has seen it in the future for a day", aheadMs: -1, hasLasted: true, duties: 1 },
])("a front that $front has $duties to do for a key", ({ aheadMs, hasLasted, duties }) => {
  const api = {
    namespace: "test",
    call: () => Promise.reject(new Error("not called")),
    watch: () => Promise.reject(new Error("not watched")),
    read: () => Promise.reject(new Error("not read")),
    [Symbol.dispose]: () => undefined,
  };
  const context = {
    api,
    clock: createFakeClock(MADE_AT_MS + aheadMs),
    creations: { items: new Map([["one", storedKey()]]) },
    fronts: { isAlive: () => true },
  };
  expect(creationDuties(context, { lasts: () => hasLasted })).toHaveLength(duties);
});
