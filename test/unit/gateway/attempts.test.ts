/** Wrong signatures of an address are counted and slowed; right ones come through in their turn. */

import { expect, test } from "vitest";
import { createSignatureAttempts, toNetwork } from "../../../src/gateway/signed-file-url.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { createRandom, printedSeed } from "../../support/random.ts";
import { tellCells } from "../../support/run/cells.ts";

const BURST = 60;
const ADDRESS = "192.0.2.1";

function exhausted() {
  const clock = createFakeClock();
  const attempts = createSignatureAttempts(clock);
  for (let count = 0; count < BURST; count += 1) attempts.noteWrong(ADDRESS);
  return { clock, attempts };
}

test("E53 sixty wrong ones are free, and those after them wait for their turn", () => {
  const { attempts } = exhausted();
  const waits = Array.from({ length: 320 }, (_one, index) =>
    attempts.waitSeconds(ADDRESS, `v1_${index}`),
  );
  const now = waits.filter((seconds) => seconds === 0).length;
  expect(now).toBeGreaterThan(0);
  expect(now).toBeLessThan(40);
  expect(Math.max(...waits)).toBeLessThanOrEqual(64);
  expect(attempts.waitSeconds("192.0.2.2", "v1_0")).toBe(0);
});

test("E53 whoever waits as long as it was told has its turn, whatever else comes", async (context) => {
  const seed = printedSeed("E53");
  const random = createRandom(seed);
  const { clock, attempts } = exhausted();
  for (let index = 0; index < 500; index += 1) {
    await clock.advance(random.below(5000));
    for (let count = 0; count < BURST; count += 1) attempts.noteWrong(ADDRESS);
    const signature = random.bytes(8).toString("hex");
    const seconds = attempts.waitSeconds(ADDRESS, signature);
    await clock.advance(seconds * 1000);
    for (let count = 0; count < BURST; count += 1) attempts.noteWrong(ADDRESS);
    expect([seed, index, attempts.waitSeconds(ADDRESS, signature)]).toEqual([seed, index, 0]);
  }
  tellCells(context, 500);
});

test("E53 a minute without a wrong one makes up for all", async () => {
  const { clock, attempts } = exhausted();
  await clock.advance(BURST * 1000);
  for (let count = 0; count < BURST; count += 1) {
    expect(attempts.waitSeconds(ADDRESS, `v1_${count}`)).toBe(0);
    attempts.noteWrong(ADDRESS);
  }
});

test("E53 clients of the private socket have no address and are not counted", () => {
  const attempts = createSignatureAttempts(createFakeClock());
  for (let count = 0; count < 1000; count += 1) attempts.noteWrong(undefined);
  expect(attempts.waitSeconds(undefined, "v1_x")).toBe(0);
});

test("E53 the table forgets who was wrong the longest time ago", () => {
  const attempts = createSignatureAttempts(createFakeClock());
  const waits = (address: string) =>
    ["a", "b", "c", "d", "e", "f", "g", "h"].some(
      (text) => attempts.waitSeconds(address, text) > 0,
    );
  for (let count = 0; count < BURST; count += 1) attempts.noteWrong(ADDRESS);
  for (let count = 0; count < 4095; count += 1)
    attempts.noteWrong(`10.0.${count >> 8}.${count & 255}`);
  expect(waits(ADDRESS)).toBe(true);
  attempts.noteWrong("10.1.0.0");
  expect(waits(ADDRESS)).toBe(false);
});

test.for([
  ["192.0.2.1", "192.0.2.1"],
  ["::ffff:192.0.2.1", "192.0.2.1"],
  ["2001:db8:1:2:3:4:5:6", "2001:db8:1:2"],
  ["2001:DB8:1:2::6", "2001:db8:1:2"],
  ["2001:db8::1", "2001:db8:0:0"],
  ["::1", "0:0:0:0"],
  ["fe80::1%eth0", "fe80:0:0:0"],
  ["unknown", "unknown"],
])("E53 %s counts as %s", ([address = "", network]) => {
  expect(toNetwork(address)).toBe(network);
});
