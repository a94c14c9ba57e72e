/** How many processes the kernel ended for lack of memory, as each generation of cgroups counts. */

import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openCgroup } from "../../../src/engine/oci/cgroups.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const ID = "i0";

const EVENTS = "low 0\nhigh 0\nmax 12\noom 3\noom_kill 2\noom_group_kill 0\n";
const CONTROL = "oom_kill_disable 0\nunder_oom 0\noom_kill 7\n";

test.for([
  { host: "version 2", unified: { "memory.events": EVENTS }, memory: undefined, count: 2 },
  { host: "version 1", unified: undefined, memory: { "memory.oom_control": CONTROL }, count: 7 },
  {
    host: "version 1 beside version 2",
    unified: { "cgroup.events": "populated 1\n" },
    memory: { "memory.oom_control": CONTROL },
    count: 7,
  },
  {
    host: "an old kernel, which does not count",
    unified: undefined,
    memory: { "memory.oom_control": "oom_kill_disable 0\nunder_oom 0\n" },
    count: undefined,
  },
  { host: "version 2 without the controller", unified: {}, memory: undefined, count: undefined },
])("$host: $count", async ({ unified, memory, count }) => {
  await using folder = await makeTempFolder();
  const trees = { unified: join(folder.path, "unified"), memory: join(folder.path, "memory") };
  await fill(trees.unified, unified);
  await fill(trees.memory, memory);
  const host = {
    unified: unified === undefined ? undefined : trees.unified,
    legacy: memory === undefined ? [] : [{ controllers: ["memory"], path: trees.memory }],
    hasSwapLimit: true,
  };
  expect(await openCgroup(host, ID, folder.path).countOutOfMemory()).toBe(count);
});

test("without cgroups nothing is counted", async () => {
  const host = { unified: undefined, legacy: [], hasSwapLimit: false };
  expect(await openCgroup(host, ID, "/nonexistent").countOutOfMemory()).toBeUndefined();
});

async function fill(tree: string, files: Readonly<Record<string, string>> = {}): Promise<void> {
  const folder = join(tree, "sandbox-mcp", ID);
  await mkdir(folder, { recursive: true });
  for (const [name, content] of Object.entries(files)) {
    await writeFile(join(folder, name), content);
  }
}
