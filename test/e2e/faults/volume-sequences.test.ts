/**
 * Several clients make, fill, list, mount and remove the same few volumes at random, from outside and
 * from sandboxes, while the service is killed or ended and started again. Every answer fits some order
 * of the calls. At the end nothing is left.
 */

import { expect, test } from "vitest";
import { z } from "../../../src/common/schema.ts";
import { takeCensus } from "../../support/census.ts";
import { listAll, openFaultHome } from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { findLies } from "../../support/faults/truth.ts";
import { createActRandoms } from "../../support/sequences/act-random.ts";
import { VolumeClient, type VolumeWorld } from "../../support/sequences/volume-client.ts";
import { createSequenceWorld, runSequences } from "../../support/sequences/world.ts";

const { random } = faultRun();
const CALLS = Number(process.env["VOLUME_SEQUENCES"] ?? 400);
const CLIENTS = ["a", "b", "c", "d"];
const LIMIT_MS = 30 * 60_000;
const FLAGS = ["--pool", "0", "--volume-mb", "64", "--memory-mb", "256"];
/** Volumes are unmounted some seconds after their last use. */
const POLL = { timeout: 30_000, interval: 100 } as const;
const volumesSchema = z.array(z.object({ volumeID: z.string() }));

test(
  `${CALLS} random calls for volumes around ends of the service`,
  { timeout: LIMIT_MS },
  async () => {
    const before = await takeCensus();
    await using home = await openFaultHome(FLAGS);
    await home.start();
    const world: VolumeWorld = { ...createSequenceWorld(home, CALLS), volumes: [] };
    const clients = createActRandoms(random, CLIENTS).map(({ name, own }) => {
      const client = new VolumeClient(world, own, name);
      return () => client.run();
    });
    await runSequences(world, random, clients);
    for (const { sandboxID } of await listAll(home))
      expect(await home.call("DELETE", `/sandboxes/${sandboxID}`)).toMatchObject({ status: 204 });
    expect((await home.call("GET", "/templates"))?.status).toBe(200);
    const volumes = volumesSchema.parse((await home.call("GET", "/volumes"))?.body);
    for (const { volumeID } of volumes)
      expect(await home.call("DELETE", `/volumes/${volumeID}`)).toMatchObject({ status: 204 });
    await expect.poll(() => findLies(home.path, before), POLL).toEqual([]);
  },
);
