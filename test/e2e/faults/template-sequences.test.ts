/**
 * Several clients build, tag, publish, start and remove the same few templates at random, while the
 * service is killed or ended and started again. Every answer, and what sandboxes have, fits some order of
 * the calls; each build ends for a reason that a call is. At the end nothing is left.
 */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { takeCensus } from "../../support/census.ts";
import { listAll, openFaultHome } from "../../support/faults/fault-home.ts";
import { faultRun } from "../../support/faults/fault-run.ts";
import { findLies } from "../../support/faults/truth.ts";
import { createActRandoms } from "../../support/sequences/act-random.ts";
import { TemplateClient, type TemplateWorld } from "../../support/sequences/template-client.ts";
import { NAMES, TemplateModel } from "../../support/sequences/template-model.ts";
import { createSequenceWorld, runSequences } from "../../support/sequences/world.ts";

const { random } = faultRun();
const CALLS = Number(process.env["TEMPLATE_SEQUENCES"] ?? 400);
const CLIENTS = ["a", "b", "c", "d"];
const LIMIT_MS = 30 * 60_000;
/** Layers that nobody needs any more are removed in the background. */
const POLL = { timeout: 30_000, interval: 100 } as const;

test(
  `${CALLS} random calls for templates around ends of the service`,
  { timeout: LIMIT_MS },
  async () => {
    const before = await takeCensus();
    await using home = await openFaultHome(["--pool", "0", "--memory-mb", "256"]);
    await home.start();
    const shared = createSequenceWorld(home, CALLS);
    const create = () => new TemplateModel(shared.moments);
    const templates = { t0: create(), t1: create(), t2: create() };
    const world: TemplateWorld = { ...shared, templates, builds: [] };
    const clients = createActRandoms(random, CLIENTS).map(
      ({ name, own }) => new TemplateClient(world, own, name),
    );
    const [first] = clients;
    await runSequences(
      world,
      random,
      clients.map((client) => () => client.run()),
    );
    await first?.followAll();
    for (const name of NAMES) await first?.checkTags(name);
    for (const { sandboxID } of await listAll(home))
      expect(await home.call("DELETE", `/sandboxes/${sandboxID}`)).toMatchObject({ status: 204 });
    for (const name of NAMES)
      expect([204, 404]).toContain((await home.call("DELETE", `/templates/${name}`))?.status);
    await expect.poll(() => findLies(home.path, before), POLL).toEqual([]);
    const uploads = await readdir(join(home.path, "uploads"));
    expect(uploads.filter((name) => name.endsWith(".part"))).toEqual([]);
  },
);
