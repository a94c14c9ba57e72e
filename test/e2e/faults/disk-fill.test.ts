/**
 * R16 Sandboxes write and sync, files are uploaded and snapshots taken until the disk of the service
 * has no room for more: every byte that was acknowledged is there.
 */

import { describe, expect, test } from "vitest";
import { faultRun } from "../../support/faults/fault-run.ts";
import { openFillStage, type FillStage } from "../../support/faults/fill-stage.ts";
import { tellCells } from "../../support/run/cells.ts";

const { random } = faultRun();
const SEEDS = Number(process.env["FILL_SEEDS"] ?? 20);
const seeds = () => Array.from({ length: SEEDS }, () => random.below(1_000_000));
const WRITERS = 4;
const PAUSE_LIMIT_MS = 60_000;
const LIMIT_MS = 180_000;

async function statesOf(stage: FillStage): Promise<readonly string[]> {
  const details = await Promise.all(
    stage.writers.map(async ({ id }) => stage.home.call("GET", `/sandboxes/${id}`)),
  );
  return details.map((answer) => {
    const { state, pauseReason } = Object(answer?.body);
    return pauseReason === undefined ? String(state) : `${state}: ${pauseReason}`;
  });
}

const PAUSED = "paused: disk_full";

/** Disks of files, and disks in a store that is larger than the disk below it. */
const LEVELS = [
  { level: "copy", flags: [], some: seeds() },
  { level: "clone", flags: ["--store-gb", "8"], some: seeds() },
] as const;

describe.each(LEVELS)("R16 a disk that sandboxes fill, level $level", ({ flags, some }) => {
  test.for(some)("seed %i", { timeout: LIMIT_MS }, async (seed, context) => {
    await using stage = await openFillStage(seed, WRITERS, flags);
    const { home, disk, writers } = stage;
    await stage.fill(async () => {
      const poll = { timeout: PAUSE_LIMIT_MS, interval: 100 };
      await expect.poll(() => statesOf(stage), poll).toEqual(writers.map(() => PAUSED));
    });
    const [first, second, third] = writers;
    const own = async (id = "", path = "", body?: unknown) =>
      (await home.call(path === "" ? "DELETE" : "POST", `/sandboxes/${id}${path}`, body))?.status;
    expect(await home.call("POST", "/sandboxes", { templateID: "base" })).toMatchObject({
      status: 507,
    });
    expect(await own(first?.id, "/pause")).toBe(204);
    expect(await own(second?.id, "/connect", { timeout: 3600 })).toBe(201);
    expect(await own(stage.idle)).toBe(204);
    const logs = JSON.stringify((await home.call("GET", `/sandboxes/${third?.id}/logs`))?.body);
    expect(logs).toContain("disk_full");

    await disk.free();
    const goOn = ["paused: request", "running", "running", "running"];
    await expect.poll(() => statesOf(stage), { timeout: PAUSE_LIMIT_MS }).toEqual(goOn);
    expect(await own(first?.id, "/connect", { timeout: 3600 })).toBe(201);
    const counts = await stage.countAcknowledged();
    const more = async () =>
      (await stage.countAcknowledged()).map((count, index) => count > (counts[index] ?? 0));
    await expect.poll(more, { timeout: PAUSE_LIMIT_MS }).toEqual(writers.map(() => true));

    await stage.endWriting();
    await stage.reopen();
    expect(await stage.findLost()).toEqual([]);
    const cells = await stage.countAcknowledged();
    tellCells(context, cells.reduce((sum, count) => sum + count, 0) + stage.shots.length);
  });
});
