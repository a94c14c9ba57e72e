/** The power of the home's disk is cut: what was answered before is there afterwards. */

import { expect, test } from "vitest";
import { z } from "../../../src/common/schema.ts";
import { KEPT } from "../../support/fault-cases.ts";
import { make, openFaultHome, type FaultHome } from "../../support/fault-home.ts";
import { NO_POOL } from "../../support/fault-stage.ts";
import { openCutDisk, type ImageDisk } from "../../support/image-disk.ts";

const FILE = "/file?path=/made/below/kept.txt&force=true";
const volumeSchema = z.object({ volumeID: z.string(), token: z.string() });
type Volume = z.infer<typeof volumeSchema>;

async function askVolume(home: FaultHome, { volumeID, token }: Volume, init: RequestInit) {
  const url = `${home.client().apiUrl}/volumecontent/${volumeID}${FILE}`;
  const reply = await fetch(url, { ...init, headers: { authorization: `Bearer ${token}` } });
  return { status: reply.status, text: await reply.text() };
}

/** As when the machine starts again, only that its processes are not gone: nothing may run. */
async function cutPower(home: FaultHome, disk: ImageDisk): Promise<void> {
  await disk.cut();
  await home.stop("SIGKILL");
  await disk.remount();
  await home.start();
}

test("a file of a volume, a snapshot and a paused disk outlive a power cut", async () => {
  let disk: ImageDisk | undefined;
  await using home = await openFaultHome(NO_POOL, async () => (disk = await openCutDisk()));
  if (disk === undefined) throw new Error("no disk");
  await home.start();
  const sandbox = await make(home);
  await home.enter(sandbox, KEPT.path, KEPT.text);
  const shot = await home.call("POST", `/sandboxes/${sandbox}/snapshots`, { name: "shot" });
  expect(shot).toMatchObject({ status: 201 });
  const paused = await home.call("POST", `/sandboxes/${sandbox}/pause`, { memory: false });
  expect(paused).toMatchObject({ status: 204 });
  const made = await home.call("POST", "/volumes", { name: "kept" });
  const volume = volumeSchema.parse(made?.body);
  const written = await askVolume(home, volume, { method: "PUT", body: KEPT.text });
  expect(written).toMatchObject({ status: 201 });

  await cutPower(home, disk);

  expect(await askVolume(home, volume, {})).toEqual({ status: 200, text: KEPT.text });
  const connect = await home.call("POST", `/sandboxes/${sandbox}/connect`, { timeout: 3600 });
  expect(connect).toMatchObject({ status: 201 });
  const copy = await make(home, { templateID: "shot" });
  for (const id of [sandbox, copy]) {
    expect(await home.enter(id, KEPT.path)).toMatchObject({ body: KEPT.text });
  }
});
