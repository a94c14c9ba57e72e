/** The file of a deadline: by the wall clock, and by the time since the start of the machine. */

import { mkdir, readFile, writeFile } from "node:fs/promises";
import { uptime } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { hasTimeLeft, writeDeadline } from "../../../src/engine/oci/deadline.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const LIFE_S = 60;

async function readBootId(): Promise<string> {
  return (await readFile("/proc/sys/kernel/random/boot_id", "utf8")).trim();
}

test("a deadline is written by both clocks", async () => {
  await using folder = await makeTempFolder();
  const atS = Math.ceil(Date.now() / 1_000) + LIFE_S;
  const earliestS = Math.floor(uptime()) + LIFE_S;
  writeDeadline(folder.path, { atMs: atS * 1_000, action: "freeze" });
  const latestS = Math.ceil(uptime()) + LIFE_S + 1;
  const [wall, up, ...rest] = (await readFile(join(folder.path, "expiry"), "utf8")).split("\n");
  expect([wall, rest]).toEqual([`${atS} freeze`, [await readBootId(), ""]]);
  expect(Number(up)).toBeGreaterThanOrEqual(earliestS);
  expect(Number(up)).toBeLessThanOrEqual(latestS);
});

test("what is due since ever is due", async () => {
  await using folder = await makeTempFolder();
  writeDeadline(folder.path, { atMs: 0, action: "freeze" });
  expect(await readFile(join(folder.path, "expiry"), "utf8")).toBe(
    `0 freeze\n0\n${await readBootId()}\n`,
  );
});

const HOUR_S = 3_600;

test.for([
  { what: "the clock was set on after it", wall: -HOUR_S, up: HOUR_S, isLeft: true },
  { what: "the clock was set back after it", wall: HOUR_S, up: -1, isLeft: false },
  { what: "the machine was started anew", wall: HOUR_S, up: HOUR_S, boot: "other", isLeft: false },
  { what: "an older service wrote it", wall: HOUR_S, up: undefined, isLeft: true },
  {
    what: "an older service wrote it long ago",
    wall: -HOUR_S,
    up: HOUR_S,
    boot: "",
    isLeft: false,
  },
])("a time to live is left where $what: $isLeft", async ({ wall, up, boot, isLeft }) => {
  await using folder = await makeTempFolder();
  await mkdir(join(folder.path, "s"));
  const lines = [
    `${Math.floor(Date.now() / 1_000) + wall} end`,
    ...(up === undefined ? [] : [`${Math.floor(uptime()) + up}`, boot ?? (await readBootId())]),
  ];
  await writeFile(join(folder.path, "s", "expiry"), `${lines.join("\n")}\n`);
  expect(await hasTimeLeft(folder.path)).toBe(isLeft);
});
