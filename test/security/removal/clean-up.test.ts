/** E45: one thing that cannot be removed keeps no other from being removed, wherever it lies. */

import { execFile } from "node:child_process";
import { randomUUID } from "node:crypto";
import { mkdir, readdir, symlink, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import type { CleanUpFailure } from "../../../src/common/clean-up.ts";
import { createRouters } from "../../../src/engine/network/router.ts";
import { pruneDaemons } from "../../../src/engine/storage/prune.ts";
import { reclaim, type ReclaimOptions } from "../../../src/sandboxes/reclaim/reclaim.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { volumeSchema } from "../../../src/wire/control.ts";
import { VOLUME_LEVELS, volumeDirectory } from "../../support/control/volume-levels.ts";
import { createBareEngine } from "../../support/engine/bare-engine.ts";
import { makeDeepTree } from "../../support/hostile/hostile-trees.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { startProgram } from "../../support/program.ts";
import { chooseSeed, createRandom, type Random } from "../../support/random.ts";
import { tellCells } from "../../support/run/cells.ts";
import { IS_WHOLE_RUN } from "../../support/runtimes.ts";
import { startTestService } from "../../support/service.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const run = promisify(execFile);
const CASES = IS_WHOLE_RUN ? 1_000 : 60;
/** Each case reclaims a home twice, a lock and some twenty removals each time. */
const CASES_TIMEOUT_MS = 10 * 60_000;
/** Enough for a path that is longer than 4,096 bytes. */
const LEVELS = IS_WHOLE_RUN ? 3_200 : 800;
const ROUTERS = "/run/sandbox-mcp/routers";
const LONG_AGO = new Date("2001-01-01");

test.for(VOLUME_LEVELS)(
  "E45 a volume with a deep tree is gone when its removal is answered: $name",
  async ({ options }) => {
    await using service = await startTestService(options);
    const made = await service.call({ method: "POST", path: "/volumes", body: { name: "deep" } });
    expect(made.status).toBe(201);
    const { volumeID, token } = volumeSchema.parse(made.body);
    const first = `/volumecontent/${volumeID}/dir?path=first`;
    const headers = { authorization: `Bearer ${token}` };
    expect((await service.call({ method: "POST", path: first, headers })).status).toBe(201);
    await makeDeepTree(volumeDirectory(service, volumeID), LEVELS);
    const path = `/volumes/${volumeID}`;
    expect((await service.call({ method: "DELETE", path })).status).toBe(204);
    for (const name of ["volumes", "volume-disks"]) {
      expect(await readdir(join(service.home, name)).catch(() => [])).toEqual([]);
    }
  },
);

test(
  "E45 whichever things fail, all others are removed, and each failure is told",
  { timeout: CASES_TIMEOUT_MS },
  async (context) => {
    const seed = chooseSeed();
    for (let count = 0; count < CASES; count += 1) {
      await using home = await makeTempFolder();
      using store = openStore({ path: ":memory:" });
      const random = createRandom(seed + count);
      const failures: CleanUpFailure[] = [];
      const { stuck, engine, expected } = await makeLeftovers(home.path, random);
      const onFailure = (failure: CleanUpFailure) => void failures.push(failure);
      const options: ReclaimOptions = {
        engine,
        store,
        home: home.path,
        self: undefined,
        takesKept: true,
        onFailure,
      };
      await reclaim(options);
      const told = failures.map(({ name }) => name).toSorted();
      const left = await namesLeft(home.path);
      expect({ seed: seed + count, told, left }).toEqual({ seed: seed + count, ...expected });
      stuck.clear();
      failures.length = 0;
      await reclaim(options);
      expect({ failures, left: await namesLeft(home.path) }).toEqual({ failures: [], left: [] });
    }
    tellCells(context, CASES);
  },
);

test.runIf(process.getuid?.() === 0)(
  "E45 gc removes all that it can, names the rest and ends with 75",
  async () => {
    await using home = await makeTempFolder();
    {
      // The mark of a database that a service has used: with a new one, gc refuses to remove anything.
      using store = openStore({ path: join(home.path, "state.db") });
      store.facts.put("seed-fingerprint", "known");
    }
    const [stays, goes] = [randomUUID(), randomUUID()].toSorted();
    const at = join(home.path, "layers", `${stays}`, "root");
    await mkdir(at, { recursive: true });
    await makeOld(join(home.path, "daemon", "old.part"));
    await mkdir(join(home.path, "volumes", `${goes}`), { recursive: true });
    await makeDeepTree(join(home.path, "volumes", `${goes}`), LEVELS);
    await run("mount", ["-t", "tmpfs", "tmpfs", at]);
    try {
      await using gc = startProgram(["gc", "--home", home.path]);
      expect({ code: await gc.exited(), stderr: gc.stderr() }).toMatchObject({
        code: 75,
        stderr: expect.stringContaining(`could not remove layer ${stays}: `),
      });
      expect(await readdir(join(home.path, "volumes"))).toEqual([]);
      expect(await readdir(join(home.path, "daemon"))).toEqual([]);
    } finally {
      await run("umount", [at]);
    }
    await using gc = startProgram(["gc", "--home", home.path]);
    expect(await gc.exited()).toBe(0);
    expect(await readdir(join(home.path, "layers"))).toEqual([]);
  },
);

test.runIf(process.getuid?.() === 0).for([
  { what: "whose namespace was unmounted", net: "", facts: '{"isReady":true}' },
  { what: "whose namespace is missing", net: undefined, facts: '{"isReady":true}' },
  { what: "whose facts were cut", net: "", facts: '{"outside":nu' },
  { what: "without facts", net: undefined, facts: undefined },
])("E45 a router $what goes with its last container", async ({ net, facts }) => {
  await using folder = await makeTempFolder();
  const slot = String(900_000 + (process.pid % 100_000));
  const full = { outside: null, resolvers: [], hosts: [] };
  await mkdir(ROUTERS, { recursive: true, mode: 0o700 });
  await symlink(folder.path, join(ROUTERS, slot));
  if (net !== undefined) await writeFile(join(ROUTERS, `${slot}.net`), net);
  if (facts !== undefined) {
    const text = facts.endsWith("}") ? JSON.stringify({ ...full, ...JSON.parse(facts) }) : facts;
    await writeFile(join(ROUTERS, `${slot}.json`), text);
  }
  await createRouters(PERL_DIRECTORY).disconnect(join(folder.path, "container"));
  const left = (await readdir(ROUTERS)).filter((name) => name.split(".")[0] === slot);
  expect(left).toEqual([]);
});

test("E45 folders of daemons go one by one", async () => {
  await using home = await makeTempFolder();
  const daemons = join(home.path, "daemon");
  for (const name of ["a.part", "b.part", "current"]) await makeOld(join(daemons, name));
  await makeDeepTree(join(daemons, "a.part"), LEVELS);
  await utimes(join(daemons, "a.part"), LONG_AGO, LONG_AGO);
  const failures: CleanUpFailure[] = [];
  const tell = (failure: CleanUpFailure) => void failures.push(failure);
  const removed = await pruneDaemons(join(daemons, "current"), [], tell);
  expect({ removed: removed.toSorted(), failures }).toEqual({
    removed: ["a.part", "b.part"],
    failures: [],
  });
});

async function makeOld(path: string): Promise<void> {
  await mkdir(path, { recursive: true });
  await utimes(path, LONG_AGO, LONG_AGO);
}

/** Dead instances with containers, lost volumes and layers; some containers cannot be removed. */
async function makeLeftovers(home: string, random: Random) {
  const stuck = new Set<string>();
  const bare = createBareEngine({ command: ["/bin/false"], perlDirectory: PERL_DIRECTORY });
  const engine = {
    ...bare,
    remove: async (id: string, directory: string) => {
      if (stuck.has(id)) throw new Error(`${id} does not end`);
      await bare.remove(id, directory);
    },
    prune: async () => {
      if (stuck.has("daemon")) throw new Error("no daemon");
      return [];
    },
  };
  const instances: string[] = [];
  for (let index = random.below(4); index >= 0; index -= 1) {
    const instance = `dead${index}`;
    for (let number = random.below(3); number >= 0; number -= 1) {
      const id = `i${index}x${number}`;
      await mkdir(join(home, "instances", instance, "s", id), { recursive: true });
      if (!random.once(4)) continue;
      stuck.add(id);
      if (!instances.includes(instance)) instances.push(instance);
    }
  }
  if (random.once(5)) stuck.add("daemon");
  for (let index = random.below(3); index >= 0; index -= 1) {
    const kind = random.pick(["volumes", "layers"]);
    await mkdir(join(home, kind, uuidOf(random), "root/a\nb"), { recursive: true });
  }
  return {
    stuck,
    engine,
    expected: {
      told: [...stuck].toSorted(),
      left: [...instances, ...[...stuck].filter((name) => name !== "daemon")].toSorted(),
    },
  };
}

function uuidOf(random: Random): string {
  const hex = random.bytes(16).toString("hex");
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    hex.slice(12, 16),
    hex.slice(16, 20),
    hex.slice(20),
  ].join("-");
}

async function namesLeft(home: string): Promise<string[]> {
  const list = async (path: string) => readdir(join(home, path)).catch(() => []);
  const instances = await list("instances");
  const containers = await Promise.all(instances.map(async (name) => list(`instances/${name}/s`)));
  return [
    ...instances,
    ...containers.flat(),
    ...(await list("volumes")),
    ...(await list("layers")),
  ].toSorted();
}
