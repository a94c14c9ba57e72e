import { expect, test } from "vitest";
import { forgetForkBuilds } from "../../../src/sandboxes/builds/builds.ts";
import { forgetUnfinished, ownersOf } from "../../../src/sandboxes/reclaim/instance-rows.ts";
import { forgetOldSteps } from "../../../src/sandboxes/template-builds/cache.ts";
import { newTemplate } from "../../../src/sandboxes/templates/new-template.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { READY_BUILD } from "../../support/engine/build-record.ts";

const LONG_AFTER_MS = 3_600_000;

test("what dead instances left is found without reading the records of snapshots", () => {
  using store = openStore({ path: ":memory:" });
  const { templateId } = newTemplate("local", "local/mine", 0);
  store.templates.put({ ...newTemplate("local", "local/mine", 0), templateId, kind: "snapshot" });
  // Of a later version: this one reads no such record.
  store.builds.put({ ...READY_BUILD, buildId: "kept", templateId, createdAtMs: Number.NaN });
  expect(() => store.builds.all()).toThrow("cannot be read");
  store.builds.put({ ...READY_BUILD, buildId: "own-fork", templateId: "none" });
  store.builds.put({ ...READY_BUILD, buildId: "fork", templateId: "none", owner: "gone" });
  const building = { buildId: "begun", templateId, owner: "gone", status: "building" } as const;
  store.builds.put({ ...READY_BUILD, ...building });
  expect(ownersOf(store)).toEqual(new Set(["gone"]));
  const left = () => ["own-fork", "fork", "begun", "step"].filter((id) => store.builds.get(id));
  forgetUnfinished(store, READY_BUILD.owner);
  expect(left()).toEqual(["fork", "begun"]);
  forgetForkBuilds(store, LONG_AFTER_MS);
  expect(left()).toEqual(["begun"]);
  forgetUnfinished(store, "gone");
  expect(left()).toEqual([]);
  store.builds.put({ ...READY_BUILD, buildId: "step", templateId: "cache:local" });
  expect(forgetOldSteps(store, 0)).toEqual([]);
  expect(left()).toEqual(["step"]);
  forgetOldSteps(store, 30 * 24 * LONG_AFTER_MS);
  expect(left()).toEqual([]);
});
