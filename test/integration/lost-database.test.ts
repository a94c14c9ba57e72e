/** A home that has lost its database: what only rows name is not removed as without an owner. */

import assert from "node:assert";
import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openHome } from "../../src/commands/home/home.ts";
import { BASE_PARTS } from "../../src/commands/templates/base-layers.ts";
import { runTemplate } from "../../src/commands/templates/template.ts";
import { createSilentLog } from "../../src/common/log.ts";
import { loadConfig } from "../../src/config.ts";
import { BASE_RECIPE } from "../../src/engine/templates/base.ts";
import { requireKnownContent } from "../../src/sandboxes/reclaim/lost-database.ts";
import { openStore } from "../../src/store/sqlite.ts";
import { startTestService } from "../support/service.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const NAME = "00000000-0000-4000-8000-000000000001";

test("a service without the database of its volumes does not start, and removes none", async () => {
  await using home = await makeTempFolder();
  {
    await using service = await startTestService({ home: home.path });
    const body = { name: "data" };
    expect(await service.call({ method: "POST", path: "/volumes", body })).toMatchObject({
      status: 201,
    });
  }
  for (const name of await readdir(home.path)) {
    if (name.startsWith("state.db")) await rm(join(home.path, name));
  }
  await expect(startTestService({ home: home.path })).rejects.toMatchObject({
    code: "failed_precondition",
    message: "the database of the home is new, but volumes has 1 of an earlier one",
  });
  const volumes = join(home.path, "volumes");
  expect(await readdir(volumes)).toHaveLength(1);
  await rm(volumes, { recursive: true });
  await using service = await startTestService({ home: home.path });
  expect((await service.call({ path: "/volumes" })).body).toEqual([]);
});

test.for(["layers", "volumes", "volume-disks", "store/snapshots", "memory"])(
  "%s of an earlier database",
  async (place) => {
    await using home = await makeTempFolder();
    using store = openStore({ path: ":memory:" });
    await mkdir(join(home.path, place, "base-1700000000001-00000000"), { recursive: true });
    await requireKnownContent(home.path, store);
    await mkdir(join(home.path, place, NAME));
    await expect(requireKnownContent(home.path, store)).rejects.toMatchObject({
      hint:
        "restore state.db from a backup, or remove layers, volumes, volume-disks, memory, store, " +
        "store.img, instances/serve from the home to begin anew; where rm says that a directory is " +
        "busy, umount it and repeat",
    });
    store.facts.put("seed-fingerprint", "known");
    await requireKnownContent(home.path, store);
  },
);

test("sandboxes that outlived their service of an earlier database", async () => {
  await using home = await makeTempFolder();
  using store = openStore({ path: ":memory:" });
  // A stdio server that was killed: its sandboxes are not kept.
  await mkdir(join(home.path, "instances/other/s/i0"), { recursive: true });
  await mkdir(join(home.path, "instances/serve/s"), { recursive: true });
  await requireKnownContent(home.path, store);
  await mkdir(join(home.path, "instances/serve/s/i1"));
  await expect(requireKnownContent(home.path, store)).rejects.toMatchObject({
    code: "failed_precondition",
    message: "the database of the home is new, but instances/serve/s has 1 of an earlier one",
  });
  store.facts.put("seed-fingerprint", "known");
  await requireKnownContent(home.path, store);
});

test("no built-in template is pulled: the older one may be below snapshots", async () => {
  await using home = await makeTempFolder();
  await openHome(home.path);
  const layers = join(home.path, "layers");
  await mkdir(join(layers, NAME), { recursive: true });
  for (const part of BASE_PARTS) {
    await mkdir(join(layers, `base-1700000000001-${BASE_RECIPE}`, part), { recursive: true });
  }
  const loaded = loadConfig({}, ["template", "pull", "base", "--if-missing", "--home", home.path]);
  assert("config" in loaded);
  const words = ["pull", "base"];
  await expect(
    runTemplate({ config: loaded.config, words, log: createSilentLog() }),
  ).rejects.toMatchObject({ code: "failed_precondition" });
});
