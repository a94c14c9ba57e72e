/** `template remove` of a template that is in use, that is not there, and of one of its tags. */

import { join } from "node:path";
import { expect, test } from "vitest";
import { findTemplate, removeTemplate } from "../../../src/commands/templates/template-records.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { DEFAULT_TEAM } from "../../../src/store/store.ts";
import { SANDBOX } from "../../suites/store.ts";
import { READY_BUILD } from "../../support/engine/build-record.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const TEMPLATE = {
  templateId: SANDBOX.templateId,
  kind: "template",
  team: DEFAULT_TEAM,
  name: "local/mine",
  isPublic: false,
  createdAtMs: 0,
  updatedAtMs: 0,
  lastSpawnedAtMs: null,
  spawnCount: 0,
} as const;

test.for([
  { states: ["paused"], message: "template mine has a sandbox", hint: "kill what" },
  { states: ["pooled", "running"], message: "template mine has 2 sandboxes", hint: "kill what" },
  { states: ["pooled"], message: "template mine has a sandbox", hint: "stop the service" },
] as const)("$states → $hint", async ({ states, message, hint }) => {
  await using home = await makeTempFolder();
  using store = openStore({ path: join(home.path, "state.db") });
  const { templateId } = SANDBOX;
  store.templates.put(TEMPLATE);
  for (const [index, state] of states.entries()) {
    store.sandboxes.put({ ...SANDBOX, sandboxId: `i${index}`, state });
  }
  await expect(removeTemplate({ home: home.path }, "mine")).rejects.toMatchObject({
    code: "unavailable",
    message,
    hint: expect.stringContaining(hint),
  });
  expect(store.templates.get(templateId)).toBeDefined();
});

test.for([
  {
    name: "mine:v1",
    fault: /: the template of mine:v1 has other builds: default, v2$/,
    isGone: false,
  },
  { name: "mine:v3", fault: /v3/, isGone: false },
  { name: "mine", fault: /^undefined$/, isGone: true },
])("of a template with other tags, $name → $fault", async ({ name, fault, isGone }) => {
  await using home = await makeTempFolder();
  using store = openStore({ path: join(home.path, "state.db") });
  store.templates.put(TEMPLATE);
  const { templateId } = TEMPLATE;
  for (const [tag, buildId] of [
    ["default", "b2"],
    ["v1", "b1"],
    ["v2", "b2"],
  ] as const) {
    store.builds.put({ ...READY_BUILD, buildId, templateId, layers: [] });
    store.builds.tag({ templateId, tag, buildId, createdAtMs: 0 });
  }
  const removing = removeTemplate({ home: home.path }, name).then(
    () => undefined,
    (error: unknown) => String(error),
  );
  expect(String(await removing)).toMatch(fault);
  expect(store.templates.get(templateId) === undefined).toBe(isGone);
});

test.for([
  { name: "none", hint: "sandbox-mcp template list shows all" },
  { name: "mine:v9", hint: "it has the tags v1" },
])("what is not there is a fault with the next step: $name → $hint", async ({ name, hint }) => {
  await using home = await makeTempFolder();
  using store = openStore({ path: join(home.path, "state.db") });
  store.templates.put(TEMPLATE);
  const { templateId } = TEMPLATE;
  store.builds.put({ ...READY_BUILD, templateId, layers: [] });
  const { buildId } = READY_BUILD;
  store.builds.tag({ templateId, tag: "v1", buildId, createdAtMs: 0 });
  const missing = { code: "not_found", hint };
  await expect(removeTemplate({ home: home.path }, name)).rejects.toMatchObject(missing);
  await expect(findTemplate({ home: home.path }, store, name)).rejects.toMatchObject(missing);
});
