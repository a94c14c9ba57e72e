/** The file of a deadline: by the wall clock, and by the time since the start of the machine. */

import { readFile } from "node:fs/promises";
import { uptime } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { writeDeadline } from "../../../src/engine/oci/deadline.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const LIFE_S = 60;

test("a deadline is written by both clocks", async () => {
  await using folder = await makeTempFolder();
  const atS = Math.ceil(Date.now() / 1_000) + LIFE_S;
  const earliestS = Math.floor(uptime()) + LIFE_S;
  writeDeadline(folder.path, { atMs: atS * 1_000, action: "freeze" });
  const latestS = Math.ceil(uptime()) + LIFE_S + 1;
  const [wall, up, rest] = (await readFile(join(folder.path, "expiry"), "utf8")).split("\n");
  expect([wall, rest]).toEqual([`${atS} freeze`, ""]);
  expect(Number(up)).toBeGreaterThanOrEqual(earliestS);
  expect(Number(up)).toBeLessThanOrEqual(latestS);
});

test("what is due since ever is due", async () => {
  await using folder = await makeTempFolder();
  writeDeadline(folder.path, { atMs: 0, action: "freeze" });
  expect(await readFile(join(folder.path, "expiry"), "utf8")).toBe("0 freeze\n0\n");
});
