/** After `chmod -R` on a home, or a copy without modes, its service says which templates are spoilt. */

import { chmod, mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { tellChangedLayers } from "../../../src/sandboxes/builds/changed-layers.ts";
import { newTemplate } from "../../../src/sandboxes/templates/new-template.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { READY_BUILD } from "../../support/engine/build-record.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const BASE = "base-1700000000001-00000000";

/** A home with a template on `base`, and a built-in; the lines of its log. */
async function setUp(layersDirectory: string) {
  const store = openStore({ path: ":memory:" });
  const template = newTemplate("local", "local/tool", 1);
  const builtIn = { ...newTemplate("local", "base", 1), kind: "built-in" as const };
  const layers = [{ root: `${BASE}/root` }, { root: "own/root" }];
  for (const { templateId } of [template, builtIn]) {
    store.builds.put({ ...READY_BUILD, buildId: `of-${templateId}`, templateId, layers });
  }
  store.templates.put(template);
  store.templates.put(builtIn);
  for (const name of [BASE, "own", "other", "draft.part"]) {
    await mkdir(join(layersDirectory, name, "root/usr/bin"), { recursive: true });
    await chmod(join(layersDirectory, name, "root"), 0o755);
  }
  await writeFile(join(layersDirectory, BASE, "root/usr/bin/sudo"), "");
  await chmod(join(layersDirectory, BASE, "root/usr/bin/sudo"), 0o4755);
  const lines: object[] = [];
  const warn = (fields: object) => void lines.push(fields);
  const log = Object.assign(createSilentLog(), { warn, error: warn });
  const close = () => store[Symbol.dispose]();
  return { store, log, lines, layersDirectory, [Symbol.dispose]: close };
}

test.for([
  { name: "its own layer", path: "own/root", mode: 0o700 },
  { name: "the base below it", path: `${BASE}/root`, mode: 0o700 },
  { name: "sudo in the base", path: `${BASE}/root/usr/bin/sudo`, mode: 0o755 },
])("a template is named when $name has lost modes", async ({ path, mode }) => {
  await using folder = await makeTempFolder();
  using home = await setUp(folder.path);
  await chmod(join(folder.path, path), mode);
  await tellChangedLayers(home);
  expect(home.lines).toEqual([{ op: "layers", count: 1, templates: ["local/tool"] }]);
});

test.for(["other", "draft.part"])("nothing stands on %s, so nothing is said", async (name) => {
  await using folder = await makeTempFolder();
  using home = await setUp(folder.path);
  await chmod(join(folder.path, name, "root"), 0o700);
  await tellChangedLayers(home);
  expect(home.lines).toEqual([]);
});
