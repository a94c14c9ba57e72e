/** `template remove` of a template that is in use: unavailable, and no fault of the usage. */

import { join } from "node:path";
import { expect, test } from "vitest";
import { removeTemplate } from "../../../src/commands/template-records.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { DEFAULT_TEAM } from "../../../src/store/store.ts";
import { SANDBOX } from "../../suites/store.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test.for([
  { states: ["paused"], message: "template mine has a sandbox", hint: "kill what" },
  { states: ["pooled", "running"], message: "template mine has 2 sandboxes", hint: "kill what" },
  { states: ["pooled"], message: "template mine has a sandbox", hint: "stop the service" },
] as const)("$states → $hint", async ({ states, message, hint }) => {
  await using home = await makeTempFolder();
  using store = openStore({ path: join(home.path, "state.db") });
  const { templateId } = SANDBOX;
  store.templates.put({
    templateId,
    kind: "template",
    team: DEFAULT_TEAM,
    name: "local/mine",
    isPublic: false,
    createdAtMs: 0,
    updatedAtMs: 0,
    lastSpawnedAtMs: null,
    spawnCount: 0,
  });
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
