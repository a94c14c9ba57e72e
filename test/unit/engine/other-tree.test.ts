/** A container that is in the old freezer alone: it was made while the version 2 tree was not mounted. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { openCgroup } from "../../../src/engine/oci/cgroups.ts";
import { endChild } from "../../support/end-child.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const ID = "i0";

/** Trees of plain files; the process leaves that of the freezer when it ends. */
async function openTrees() {
  await using parts = new AsyncDisposableStack();
  const { path } = parts.use(await makeTempFolder());
  const child = spawn("sleep", ["600"]);
  const freezer = join(path, "freezer", "sandbox-mcp", ID);
  await mkdir(freezer, { recursive: true });
  await mkdir(join(path, "unified"));
  const processes = join(freezer, "cgroup.procs");
  await writeFile(join(freezer, "freezer.state"), "THAWED");
  await writeFile(processes, `${child.pid}\n`);
  const ended = once(child, "exit").then(async () => writeFile(processes, ""));
  parts.defer(async () => ended);
  parts.defer(async () => endChild(child));
  const host = {
    unified: join(path, "unified"),
    legacy: [{ controllers: ["freezer"], path: join(path, "freezer") }],
    hasSwapLimit: true,
  };
  const open = parts.move();
  return {
    cgroup: openCgroup(host, ID, path),
    state: async () => readFile(join(freezer, "freezer.state"), "utf8"),
    child,
    [Symbol.asyncDispose]: async () => open.disposeAsync(),
  };
}

test("it is found, frozen, thawed and ended once that tree is mounted", async () => {
  await using trees = await openTrees();
  const { cgroup } = trees;
  const before = [await cgroup.isPopulated(), cgroup.unified];
  await cgroup.freeze();
  const frozen = [await trees.state(), await cgroup.isFrozen()];
  await cgroup.thaw();
  const thawed = await trees.state();
  await cgroup.kill();
  expect({ before, frozen, thawed, after: await cgroup.isPopulated() }).toEqual({
    before: [true, undefined],
    frozen: ["FROZEN", true],
    thawed: "THAWED",
    after: false,
  });
  expect(trees.child.signalCode).toBe("SIGKILL");
});
