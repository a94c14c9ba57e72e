/** What a template build that failed leaves: nothing of its own, also where its template is gone. */

import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createSilentLog } from "../../../../src/common/log.ts";
import { liveTemplateId } from "../../../../src/sandboxes/builds/live-builds.ts";
import { undoBuild } from "../../../../src/sandboxes/template-builds/run-build.ts";
import { openStore } from "../../../../src/store/sqlite.ts";
import { READY_BUILD } from "../../../support/engine/build-record.ts";
import { makeTempFolder } from "../../../support/temp-folder.ts";

const BUILD = "00000000-0000-4000-8000-000000000001";
const LIVE = "00000000-0000-4000-8000-000000000002";

test.for([
  { title: "is there", isThere: true },
  { title: "was removed with its template", isThere: false },
])("memory that was kept goes where the build $title", async ({ isThere }) => {
  await using home = await makeTempFolder();
  using store = openStore({ path: ":memory:" });
  const layersDirectory = join(home.path, "layers");
  await mkdir(join(layersDirectory, BUILD), { recursive: true });
  await mkdir(join(home.path, "memory", LIVE), { recursive: true });
  const layers = [{ root: `${BUILD}/root` }];
  if (isThere) store.builds.put({ ...READY_BUILD, buildId: BUILD, status: "building", layers });
  const memory = { folder: `../memory/${LIVE}`, team: "local" };
  const templateId = liveTemplateId(BUILD);
  store.builds.put({ ...READY_BUILD, buildId: LIVE, templateId, layers, memory });
  const context = {
    store,
    layersDirectory,
    log: createSilentLog(),
    retry: (subject: string) => expect.fail(subject),
  };
  await undoBuild(context, BUILD);
  expect(store.builds.all()).toEqual([]);
  expect(await readdir(layersDirectory)).toEqual([]);
  expect(await readdir(join(home.path, "memory"))).toEqual([]);
});
