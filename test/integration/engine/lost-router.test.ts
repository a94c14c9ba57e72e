/** Containers whose router went with the process that made it: each of them gets its link again. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { claimIds, releaseIds } from "../../../src/engine/host/id-ranges.ts";
import { runProgram } from "../../../src/engine/host/run-program.ts";
import { routersOf } from "../../../src/engine/network/router-record.ts";
import { createRouters } from "../../../src/engine/network/router.ts";
import { readStartTicks } from "../../../src/engine/oci/container-record.ts";
import { HALTED } from "../../support/halted-record.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const EVERYTHING = { allow: [], deny: [], domains: [] };

/** A file that is a network namespace, as the one that leads outside. */
async function makeNamespace(path: string) {
  await writeFile(path, "");
  await runProgram(["unshare", `--net=${path}`, "true"]);
  return { path, [Symbol.asyncDispose]: async () => void (await runProgram(["umount", path])) };
}

/** Its first process has a network namespace of its own. */
async function startContainer(directory: string) {
  await mkdir(directory);
  const child = spawn("unshare", ["--net", "sh", "-c", "echo; exec sleep 600"]);
  await once(child.stdout, "data");
  const { pid = 0 } = child;
  const startTicks = readStartTicks(pid) ?? "";
  const record = { ...HALTED, isHalted: false, pid, startTicks, idBase: await claimIds(directory) };
  return {
    directory,
    record,
    [Symbol.asyncDispose]: async () => {
      child.kill("SIGKILL");
      await once(child, "exit");
      await releaseIds(directory);
    },
  };
}

test("the link of each container is missed, also once a router was made for the first of them", async () => {
  await using folder = await makeTempFolder();
  await using namespace = await makeNamespace(join(folder.path, "outside"));
  const program = "/nonexistent";
  const outside = { ...namespace, program, perlDirectory: PERL_DIRECTORY, resolvers: [] };
  const owner = join(folder.path, "s");
  await mkdir(owner);
  await using first = await startContainer(join(owner, "i1"));
  await using second = await startContainer(join(owner, "i2"));
  const all = [first, second];
  const earlier = createRouters();
  for (const one of all) await earlier.setEgress({ ...one, outside }, EVERYTHING);
  const untouched = createRouters();
  expect([await untouched.hasLost(first), await untouched.hasLost(second)]).toEqual([false, false]);

  const routers = createRouters();
  for (const router of await routersOf(owner)) await runProgram(["umount", router.path]);
  const lost: boolean[] = [];
  for (const one of all) {
    lost.push(await routers.hasLost(one));
    await routers.setEgress({ ...one, outside }, EVERYTHING);
  }
  const next = createRouters();
  const found = [await next.hasLost(first), await next.hasLost(second)];
  for (const { directory } of all) await routers.disconnect(directory);
  expect({ lost, found }).toEqual({ lost: [true, true], found: [false, false] });
});
