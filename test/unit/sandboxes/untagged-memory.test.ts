/** The memory that a template's build keeps for its sandboxes, once no tag leads to that build. */

import { mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { liveTemplateId } from "../../../src/sandboxes/builds/live-builds.ts";
import { newTemplate } from "../../../src/sandboxes/templates/new-template.ts";
import { createTemplates } from "../../../src/sandboxes/templates/templates.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { READY_BUILD } from "../../support/engine/build-record.ts";
import { createFakeClock } from "../../support/fake-clock.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

type Options = Parameters<typeof createTemplates>[0];
type Templates = ReturnType<typeof createTemplates>;

test.for([
  { title: "moves", act: (templates: Templates) => templates.tag("mine", ["old"]) },
  { title: "is removed", act: (templates: Templates) => templates.untag("mine", ["old"]) },
])("memory goes when the last tag of its build $title", async ({ act }) => {
  await using home = await makeTempFolder();
  using store = openStore({ path: ":memory:" });
  const template = newTemplate("blue", "blue/mine", 0);
  const { templateId } = template;
  store.templates.put(template);
  for (const [buildId, tag] of [
    ["first", "old"],
    ["second", "default"],
  ] as const) {
    const live = `live-${buildId}`;
    const memory = { folder: `../memory/${live}`, team: "blue" };
    store.builds.put({ ...READY_BUILD, buildId, templateId });
    store.builds.put({
      ...READY_BUILD,
      buildId: live,
      templateId: liveTemplateId(buildId),
      memory,
    });
    store.builds.tag({ templateId, tag, buildId, createdAtMs: 0 });
    await mkdir(join(home.path, "memory", live), { recursive: true });
  }
  const later: Promise<void>[] = [];
  const options: Partial<Options> = {
    store,
    team: "blue",
    clock: createFakeClock(),
    layersDirectory: join(home.path, "layers"),
    cleanUpLater: (_subject, work) => void later.push(work(new AbortController().signal)),
  };
  // What changes of tags read of its options.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  act(createTemplates(options as Options));
  for (const work of later) await work;
  expect(await readdir(join(home.path, "memory"))).toEqual(["live-second"]);
  expect(store.builds.get("first")).toBeDefined();
});
