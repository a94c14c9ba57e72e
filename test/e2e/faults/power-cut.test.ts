/** The power of the home's disk is cut: what was answered before is there afterwards. */

import { readFile, truncate } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { z } from "../../../src/common/schema.ts";
import { fateOf, KEPT } from "../../support/faults/fault-cases.ts";
import { make, openFaultHome, type FaultHome } from "../../support/faults/fault-home.ts";
import { NO_POOL } from "../../support/faults/fault-stage.ts";
import { openCutDisk, type ImageDisk } from "../../support/faults/image-disk.ts";
import { askVolume, volumeSchema } from "../../support/faults/volume-access.ts";

/** A disk is copied, twice with the base template, on a machine that does other work. */
const LIMIT_MS = 300_000;
const FILE = "/made/below/kept.txt";
const sandboxSchema = z.object({ sandboxID: z.string() });

/** Where the service keeps the number of its guardian. */
const GUARDIAN = "instances/serve/guardian";

/** As when the machine starts again: no process of the service is left, and no sandbox may run. */
async function cutPower(home: FaultHome, disk: ImageDisk): Promise<void> {
  const guardian = Number.parseInt(await readFile(join(home.path, GUARDIAN), "utf8"), 10);
  await disk.cut();
  await home.stop("SIGKILL");
  process.kill(guardian, "SIGKILL");
  await disk.restore();
}

async function makePaused(home: FaultHome): Promise<string> {
  const id = await make(home);
  await home.enter(id, KEPT.path, KEPT.text);
  const paused = await home.call("POST", `/sandboxes/${id}/pause`, { memory: false });
  expect(paused).toMatchObject({ status: 204 });
  return id;
}

test(
  "a file, a snapshot and a paused disk outlive a power cut",
  { timeout: LIMIT_MS },
  async () => {
    let disk: ImageDisk | undefined;
    await using home = await openFaultHome(NO_POOL, async () => (disk = await openCutDisk()));
    if (disk === undefined) throw new Error("no disk");
    await home.start();
    const source = await make(home);
    await home.enter(source, KEPT.path, KEPT.text);
    const shot = await home.call("POST", `/sandboxes/${source}/snapshots`, { name: "shot" });
    expect(shot).toMatchObject({ status: 201 });
    await home.call("DELETE", `/sandboxes/${source}`);
    const [sandbox, torn] = [await makePaused(home), await makePaused(home)];
    const made = await home.call("POST", "/volumes", { name: "kept" });
    const volume = volumeSchema.parse(made?.body);
    const written = await askVolume(home, volume, { path: FILE, body: KEPT.text });
    expect(written).toMatchObject({ status: 201 });

    await cutPower(home, disk);
    // Other file systems than this one may leave such a record.
    const record = join("instances/serve/s", torn, "container.json");
    await truncate(join(home.path, record));
    await home.start();

    expect(await fateOf(home, torn)).toBe("gone");
    expect(await askVolume(home, volume, { path: FILE })).toEqual({ status: 200, text: KEPT.text });
    const connect = await home.call("POST", `/sandboxes/${sandbox}/connect`, { timeout: 3600 });
    expect(connect).toMatchObject({ status: 201 });
    const wish = { templateID: "shot", timeout: 3600, secure: false };
    const answer = await home.call("POST", "/sandboxes", wish);
    expect(answer).toMatchObject({ status: 201 });
    for (const id of [sandbox, sandboxSchema.parse(answer?.body).sandboxID]) {
      expect(await home.enter(id, KEPT.path)).toMatchObject({ body: KEPT.text });
    }
  },
);
