/** The memory behind forks whose service was killed before it could remove it. */

import { expect, test } from "vitest";
import { forgetOwnForkBuilds } from "../../../src/sandboxes/builds/builds.ts";
import { findOrphanMemory } from "../../../src/sandboxes/builds/layer-folders.ts";
import { liveTemplateId } from "../../../src/sandboxes/builds/live-builds.ts";
import { forgetUnfinished } from "../../../src/sandboxes/reclaim/instance-rows.ts";
import { newTemplate } from "../../../src/sandboxes/templates/new-template.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import type { BuildRecord, Store } from "../../../src/store/store.ts";
import { SANDBOX } from "../../suites/store.ts";
import { READY_BUILD } from "../../support/engine/build-record.ts";

const numbered = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, "0")}`;
const OF_FORKS = numbered(1);
const OF_SNAPSHOT = numbered(2);
const OF_LIVE = numbered(3);
const OF_OTHERS = numbered(4);

/** A build with memory, on which one sandbox stands. */
function addBuild(store: Store, buildId: string, known: Partial<BuildRecord>): void {
  store.builds.put({
    ...READY_BUILD,
    buildId,
    templateId: "nobody",
    memory: { folder: `../memory/${buildId}`, team: "local" },
    ...known,
  });
  store.sandboxes.put({ ...SANDBOX, sandboxId: `i${buildId.slice(-1)}`, buildId });
}

test("a build of forks loses its memory in the transaction that looks at it", () => {
  using store = openStore({ path: ":memory:" });
  addBuild(store, OF_FORKS, {});
  let isInside = false;
  const written: boolean[] = [];
  const watched: Store = {
    ...store,
    builds: {
      ...store.builds,
      put: (record) => {
        written.push(isInside);
        store.builds.put(record);
      },
    },
    transaction: (work) =>
      store.transaction(() => {
        isInside = true;
        try {
          return work();
        } finally {
          isInside = false;
        }
      }),
  };
  forgetOwnForkBuilds(watched, "serve");
  expect(written).toEqual([true]);
  expect(store.builds.get(OF_FORKS)?.memory).toBeUndefined();
});

test("after a start of the service no memory is kept for forks that go on", () => {
  using store = openStore({ path: ":memory:" });
  const template = newTemplate("local", "local/warm", 0);
  store.templates.put(template);
  addBuild(store, OF_FORKS, {});
  addBuild(store, OF_SNAPSHOT, { templateId: template.templateId });
  addBuild(store, OF_LIVE, { templateId: liveTemplateId(OF_SNAPSHOT) });
  addBuild(store, OF_OTHERS, { owner: "another" });
  forgetUnfinished(store, "serve");
  const folders = [OF_FORKS, OF_SNAPSHOT, OF_LIVE, OF_OTHERS];
  expect(findOrphanMemory(folders, store.builds.all())).toEqual([OF_FORKS]);
  expect(store.builds.get(OF_FORKS)).toMatchObject({ status: "ready", layers: [] });
});
