import { expect, test } from "vitest";
import { newTemplate } from "../../../src/sandboxes/templates/new-template.ts";
import { createTemplates } from "../../../src/sandboxes/templates/templates.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { READY_BUILD } from "../../support/engine/build-record.ts";

test("a list of templates has those with a build, by the newest, and counts the others", () => {
  using store = openStore({ path: ":memory:" });
  const built = newTemplate("blue", "blue/built", 1);
  const unbuilt = newTemplate("blue", "blue/unbuilt", 2);
  for (const template of [built, unbuilt]) store.templates.put(template);
  const { templateId } = built;
  const add = (buildId: string, createdAtMs: number, status: "ready" | "building" = "ready") =>
    store.builds.put({ ...READY_BUILD, buildId, templateId, createdAtMs, status });
  add("b-old", 3);
  add("b-later", 5);
  add("b-first", 5);
  add("b-begun", 9, "building");
  // Of a later version: this one reads no such record.
  const unreadable = { ...READY_BUILD, buildId: "b-unread", templateId, createdAtMs: 4 };
  store.builds.put({ ...unreadable, updatedAtMs: Number.NaN });
  expect(() => store.builds.ofTemplate(templateId)).toThrow("cannot be read");
  const limits = { memoryMb: 512, cpus: 4, diskMb: 64, pids: 32 };
  // What a list reads of its options.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const options = { store, limits, team: "blue", builtIns: [] } as unknown as Parameters<
    typeof createTemplates
  >[0];
  expect(createTemplates(options).list()).toEqual([
    {
      template: built,
      newest: expect.objectContaining({ buildId: "b-first", limits }),
      buildCount: 4,
    },
  ]);
});
