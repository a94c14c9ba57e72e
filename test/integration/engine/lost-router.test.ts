/** Containers whose router went with the process that made it: each of them gets its link again. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { runProgram } from "../../../src/engine/host/run-program.ts";
import { routersOf } from "../../../src/engine/network/router-record.ts";
import { createRouters } from "../../../src/engine/network/router.ts";
import { EVERYTHING, makeNetwork, startConnectable } from "../../support/network/router-parts.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

test("the link of each container is missed, also once a router was made for the first of them", async () => {
  await using folder = await makeTempFolder();
  await using namespace = await makeNetwork(join(folder.path, "outside"));
  const program = "/nonexistent";
  const outside = {
    ...namespace,
    program,
    perlDirectory: PERL_DIRECTORY,
    resolvers: [],
    changes: 0,
  };
  const owner = join(folder.path, "s");
  await mkdir(owner);
  await using first = await startConnectable(join(owner, "i1"));
  await using second = await startConnectable(join(owner, "i2"));
  const all = [first, second];
  const earlier = createRouters(PERL_DIRECTORY);
  for (const one of all) await earlier.setEgress({ ...one, outside }, EVERYTHING);
  const untouched = createRouters(PERL_DIRECTORY);
  expect([await untouched.hasLost(first), await untouched.hasLost(second)]).toEqual([false, false]);

  const routers = createRouters(PERL_DIRECTORY);
  for (const router of await routersOf(owner)) await runProgram(["umount", router.path]);
  const lost: boolean[] = [];
  for (const one of all) {
    lost.push(await routers.hasLost(one));
    await routers.setEgress({ ...one, outside }, EVERYTHING);
  }
  const next = createRouters(PERL_DIRECTORY);
  const found = [await next.hasLost(first), await next.hasLost(second)];
  for (const { directory } of all) await routers.disconnect(directory);
  expect({ lost, found }).toEqual({ lost: [true, true], found: [false, false] });
});
