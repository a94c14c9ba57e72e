/** Which snapshots and pauses of a front get a place, and which wait. */

import { expect, test } from "vitest";
import { createTakeGate, type Applicant } from "../../../src/cluster/snapshots/take-gate.ts";

const BOUNDS = { atOnce: 3, perTeam: 2, waitingPerTeam: 2, waitMs: 60_000 };
const never = new AbortController().signal;

function open(bounds = BOUNDS) {
  const gate = createTakeGate(bounds);
  const begun: string[] = [];
  const ends = new Map<string, () => void>();
  /** Its key is that of a sandbox, such as `a1` of the team `a`. */
  const take = async (key: string, more: Partial<Applicant> = {}) =>
    gate.run({ team: key.slice(0, 1), key, signal: never, ...more }, async () => {
      const { promise, resolve } = Promise.withResolvers<void>();
      begun.push(key);
      ends.set(key, resolve);
      await promise;
    });
  /** What waits at the end of a test is given up after that, beside other tests. */
  const leave = (key: string, more?: Partial<Applicant>) =>
    void take(key, more).catch(() => undefined);
  const end = async (key: string, taking: Promise<void> | undefined) => {
    ends.get(key)?.();
    await taking;
    await settle();
  };
  return { take, leave, end, begun };
}

/** Until what a place that is free begins has begun. */
const settle = async () => new Promise((resolve) => setImmediate(resolve));

test("a team that takes its places leaves one to the next team", async () => {
  const { leave, begun } = open();
  for (const key of ["a1", "a2", "a3", "b1"]) leave(key);
  await settle();
  expect(begun).toEqual(["a1", "a2", "b1"]);
});

test("of one sandbox one image is made at once, in the order of the requests", async () => {
  const { take, leave, end, begun } = open();
  const first = take("a1");
  leave("a1");
  leave("a2");
  await settle();
  expect(begun).toEqual(["a1", "a2"]);
  await end("a1", first);
  expect(begun).toEqual(["a1", "a2", "a1"]);
});

test("a free place goes to the team with the fewest", async () => {
  const { take, leave, end, begun } = open({ ...BOUNDS, atOnce: 2 });
  const [first] = [take("a1"), take("a2")];
  leave("a3");
  leave("b1");
  await settle();
  expect(begun).toEqual(["a1", "a2"]);
  await end("a1", first);
  expect(begun).toEqual(["a1", "a2", "b1"]);
});

test("one whose client leaves does not wait any more, and takes no place", async () => {
  const { take, leave, end, begun } = open({ ...BOUNDS, atOnce: 1 });
  const client = new AbortController();
  const first = take("a1");
  const left = take("b1", { signal: client.signal });
  leave("c1");
  client.abort();
  await expect(left).rejects.toMatchObject({ code: "canceled" });
  await end("a1", first);
  expect(begun).toEqual(["a1", "c1"]);
});

test.for([0, 1, 2, 3])(
  "one whose client leaves as a place is free, %i turns later, leaves it to the next",
  async (turns) => {
    const { take, leave, end, begun } = open({ ...BOUNDS, atOnce: 1 });
    const client = new AbortController();
    const first = take("a1");
    const left = take("b1", { signal: client.signal }).catch(() => undefined);
    await settle();
    const ended = end("a1", first);
    for (let turn = 0; turn < turns; turn += 1) await Promise.resolve();
    client.abort();
    await ended;
    // It may have had its place just before.
    await end("b1", left);
    leave("c1");
    await settle();
    expect(begun.at(-1)).toBe("c1");
  },
);

test("a request waits for no pauses at their timeout of its team, but for other teams", async () => {
  const { take, end, begun } = open({ ...BOUNDS, atOnce: 1 });
  const takings = new Map<string, Promise<void>>();
  for (const key of ["a1", "a2", "b1", "c1", "a3"]) {
    takings.set(key, take(key, { isPatient: ["a2", "b1"].includes(key) }));
  }
  await settle();
  for (const key of ["a1", "a3", "a2", "b1"]) await end(key, takings.get(key));
  expect(begun).toEqual(["a1", "a3", "a2", "b1", "c1"]);
});

test("requests beyond the bound are refused, pauses at their timeout wait", async () => {
  const { take, leave, begun } = open();
  for (const key of ["a1", "a2", "a3", "a4"]) leave(key);
  await expect(take("a5")).rejects.toMatchObject({ code: "unavailable", retryAfterSeconds: 10 });
  leave("a6", { isPatient: true });
  leave("b1");
  await settle();
  expect(begun).toEqual(["a1", "a2", "b1"]);
});

test("a request that waits too long is refused, a pause at its timeout is not given up", async () => {
  const { take, end, begun } = open({ ...BOUNDS, atOnce: 1, waitMs: 1 });
  const first = take("a1");
  const patient = take("b1", { isPatient: true });
  await expect(take("c1")).rejects.toMatchObject({ code: "unavailable" });
  await end("a1", first);
  await end("b1", patient);
  expect(begun).toEqual(["a1", "b1"]);
});
