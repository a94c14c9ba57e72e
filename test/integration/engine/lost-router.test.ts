/** Containers whose router went with the process that made it: each of them gets its link again. */

import { mkdir, readFile, rename } from "node:fs/promises";
import { basename, join } from "node:path";
import { expect, test } from "vitest";
import { tryParseJson } from "../../../src/common/json.ts";
import { holdIds, releaseIds, slotsOf } from "../../../src/engine/host/id-ranges.ts";
import { runProgram } from "../../../src/engine/host/run-program.ts";
import {
  claimRouter,
  forgetRouter,
  namespacePath,
  routersOf,
  writeRouter,
} from "../../../src/engine/network/router-record.ts";
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

/** The folder of containers, where it will be moved, and a network outside. */
async function openMovable() {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await makeTempFolder());
  const namespace = stack.use(await makeNetwork(join(path, "outside")));
  const parts = { program: "/nonexistent", perlDirectory: PERL_DIRECTORY };
  const outside = { ...namespace, ...parts, resolvers: [], changes: 0 };
  const [owner, place] = [join(path, "s"), join(path, "moved")];
  await mkdir(owner);
  const owned = stack.move();
  return { outside, owner, place, [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

test("a home that was moved keeps its router and the links of its containers", async () => {
  await using home = await openMovable();
  const { outside, owner, place } = home;
  await using first = await startConnectable(join(owner, "i1"));
  await using second = await startConnectable(join(owner, "i2"));
  const earlier = createRouters(PERL_DIRECTORY);
  for (const one of [first, second]) await earlier.setEgress({ ...one, outside }, EVERYTHING);
  const [before] = await routersOf(owner);
  await rename(owner, place);

  const routers = createRouters(PERL_DIRECTORY);
  const moved = [first, second].map((one) => ({
    ...one,
    directory: join(place, basename(one.directory)),
  }));
  const lost: boolean[] = [];
  for (const { directory, record } of moved) {
    await holdIds(directory, record.idBase);
    lost.push(await routers.hasLost({ directory, record }));
  }
  const [after] = await routersOf(place);
  for (const { directory } of moved) {
    await routers.disconnect(directory);
    await releaseIds(directory);
  }
  expect({ lost, slot: after?.slot }).toEqual({ lost: [false, false], slot: before?.slot });
  expect([await routersOf(owner), await routersOf(place)]).toEqual([[], []]);
});

test("of a home that was moved nothing stays of containers that ended before", async () => {
  await using home = await openMovable();
  const { outside, owner, place } = home;
  const names = ["i1", "i2"];
  const earlier = createRouters(PERL_DIRECTORY);
  for (const name of names) {
    const one = await startConnectable(join(owner, name));
    await earlier.setEgress({ ...one, outside }, EVERYTHING);
    process.kill(one.record.pid, "SIGKILL");
  }
  await rename(owner, place);
  const routers = createRouters(PERL_DIRECTORY);
  const held: number[] = [];
  for (const name of names) {
    const directory = join(place, name);
    held.push((await slotsOf(directory)).length);
    await routers.disconnect(directory);
    await releaseIds(directory);
    held.push((await slotsOf(directory)).length);
  }
  expect(held).toEqual([1, 0, 1, 0]);
  expect([await routersOf(owner), await routersOf(place)]).toEqual([[], []]);
});

test("a record has what an earlier version takes: no networks among its addresses", async () => {
  await using folder = await makeTempFolder();
  const slot = await claimRouter(folder.path);
  const path = namespacePath(slot);
  const facts = { outside: null, resolvers: ["192.0.2.1"], isReady: false };
  try {
    await writeRouter({ slot, path, ...facts, hosts: ["198.51.100.0/25", "203.0.113.9/32"] });
    const record = await readFile(path.replace(/net$/, "json"), "utf8");
    const [router] = await routersOf(folder.path);
    expect({ record: tryParseJson(record), hosts: router?.hosts }).toEqual({
      record: { ...facts, hosts: ["203.0.113.9"], networks: ["198.51.100.0/25"] },
      hosts: ["203.0.113.9", "198.51.100.0/25"],
    });
  } finally {
    await forgetRouter(slot);
  }
});
