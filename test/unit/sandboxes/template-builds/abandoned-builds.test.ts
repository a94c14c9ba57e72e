/** A request for a build whose steps do not come is forgotten; what runs or has ended is not. */

import { expect, test } from "vitest";
import {
  forgetAbandoned,
  forgetLostLines,
} from "../../../../src/sandboxes/template-builds/abandoned-builds.ts";
import type { TemplateBuildRecord } from "../../../../src/store/build-records.ts";
import { openStore } from "../../../../src/store/sqlite.ts";
import { RUNNING } from "../../../support/engine/running-build.ts";

const DAY_MS = 24 * 3_600_000;

const build: TemplateBuildRecord = {
  ...RUNNING,
  buildId: "old",
  status: "waiting",
  createdAtMs: 0,
};

test("after a day a request that waits is forgotten", () => {
  using store = openStore({ path: ":memory:" });
  store.templateBuilds.put(build);
  store.templateBuilds.put({ ...build, buildId: "new", createdAtMs: 1 });
  store.templateBuilds.put({ ...build, buildId: "running", status: "building" });
  store.templateBuilds.put({ ...build, buildId: "ended", status: "error" });
  forgetAbandoned(store, DAY_MS + 1);
  expect(store.templateBuilds.ids().toSorted()).toEqual(["ended", "new", "running"]);
  const open = store.templateBuilds.open().map(({ buildId }) => buildId);
  expect(open.toSorted()).toEqual(["new", "running"]);
});

test("lines of a build whose row is gone are forgotten, those of others are not", () => {
  using store = openStore({ path: ":memory:" });
  const line = { atMs: 1, level: "info", step: "1", message: "text" } as const;
  for (const buildId of ["a", "b", "c"]) {
    store.templateBuilds.put({ ...build, buildId });
    store.buildLines.append(buildId, [line, line]);
  }
  expect(store.buildLines.buildIds()).toEqual(["a", "b", "c"]);
  store.templateBuilds.remove("a");
  store.templateBuilds.remove("c");
  forgetLostLines(store);
  expect(store.buildLines.buildIds()).toEqual(["b"]);
});
