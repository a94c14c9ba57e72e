/** What a home has once: made by whoever comes first, checked when it is used, made anew when spoiled. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { access, chmod, mkdir, readdir, rm, stat, truncate, writeFile } from "node:fs/promises";
import { basename, dirname, join, resolve } from "node:path";
import { expect, test } from "vitest";
import { warmUpRequests } from "../../../src/commands/service/warm-up-requests.ts";
import { findBase } from "../../../src/commands/templates/base-layers.ts";
import { builtInTemplates } from "../../../src/commands/templates/built-ins.ts";
import { prepareDaemon } from "../../../src/engine/daemon/daemon.ts";
import { holdLock } from "../../../src/engine/host/lock.ts";
import { reclaim } from "../../../src/sandboxes/reclaim/reclaim.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import { createBareEngine } from "../../support/engine/bare-engine.ts";
import { openTestHome } from "../../support/home.ts";
import { PERL_DIRECTORY } from "../../support/perl-directory.ts";
import { startProgram } from "../../support/program.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const DIST = join(ROOT, "dist");
const OPENERS = 6;
const IS_WHOLE = process.env["FIRST_RUN"] === "all";
const OPEN_ROUNDS = IS_WHOLE ? 20 : 2;
/** All have begun by then. */
const START_AFTER_MS = 500;
/** Each round starts as many processes as there are openers, which a busy machine does slowly. */
const OPEN_LIMIT_MS = 60_000 + OPEN_ROUNDS * 30_000;

function hostOf(home: string) {
  const host = builtInTemplates(home, PERL_DIRECTORY).find(({ name }) => name === "host");
  const signal = new AbortController().signal;
  return {
    find: async () => host?.find(),
    prepare: async () => host?.prepare?.(signal),
  };
}

/** When a package was last installed on a Debian system. */
const changedMs = async () =>
  (await stat("/var/lib/dpkg/status").catch(() => undefined))?.mtimeMs ?? 0;

/** A package that is installed meanwhile asks for another layer of host: the work begins again then. */
async function whilePackagesStay(work: () => Promise<void>): Promise<void> {
  const beforeMs = await changedMs();
  try {
    await work();
  } catch (error) {
    if ((await changedMs()) === beforeMs) throw error;
    await whilePackagesStay(work);
  }
}

test("E58 the layer of host is made once, and anew when a part of it is missing", async () => {
  await whilePackagesStay(makeHostTwice);
});

async function makeHostTwice(): Promise<void> {
  await using home = await makeTempFolder();
  const layers = join(home.path, "layers");
  // As an older version left it that two builders had spoiled.
  await mkdir(join(layers, "host-1700000000001", "root"), { recursive: true });
  // The clean-up of a start leaves it while this process makes its own.
  await mkdir(join(layers, "host-1700000000002-0.aa.part", "root"), { recursive: true });
  const host = hostOf(home.path);
  expect(await host.find()).toBeUndefined();
  const [first, ...others] = await Promise.all([host.prepare(), host.prepare(), host.prepare()]);
  expect(others).toEqual([first, first]);
  expect(await host.find()).toEqual(first);
  const over = dirname(first?.[1]?.root ?? "");
  for (const part of IS_WHOLE ? ["usr", "root"] : ["usr"]) {
    await rm(join(over, part), { recursive: true });
    expect(await host.find()).toBeUndefined();
    expect(await host.prepare()).toEqual(first);
    await access(join(over, "usr/local/bin"));
  }
  const names = [basename(dirname(over)), "host-1700000000001"];
  expect((await readdir(layers)).toSorted()).toEqual(names.toSorted());
}

test("E58 an unfinished base does not hide the one before it", async () => {
  await using home = await openTestHome();
  const before = await findBase(home.path);
  await mkdir(join(home.path, "layers", "base-9999999999999-00000000", "root/etc"), {
    recursive: true,
  });
  expect(before).toBeDefined();
  expect(await findBase(home.path)).toEqual(before);
});

test("E58 drafts of dead builders go at the next clean-up, those of living ones stay", async () => {
  await using home = await makeTempFolder();
  const names = ["base-1-0.aa.part", "base-2-0.part", "host-3.part", "host-4-0.bb.part"];
  for (const name of names)
    await mkdir(join(home.path, "layers", name, "root"), { recursive: true });
  using store = openStore({ path: ":memory:" });
  const engine = createBareEngine({ command: ["/bin/false"], perlDirectory: PERL_DIRECTORY });
  const options = {
    engine,
    store,
    home: home.path,
    self: undefined,
    takesKept: false,
    onFailure: () => expect.unreachable(),
  };
  const building = await holdLock(home.path, "base");
  const removed = (await reclaim(options)).map(({ name }) => name);
  expect(removed).toEqual(["host-3.part", "host-4-0.bb.part"]);
  await building[Symbol.asyncDispose]();
  expect((await reclaim(options)).map(({ name }) => name)).toEqual(names.slice(0, 2));
  expect(await readdir(join(home.path, "layers"))).toEqual([]);
});

const SOURCES = {
  bundle: join(DIST, "envd.cjs"),
  starter: join(DIST, "envd-starter.cjs"),
  node: process.execPath,
  perlDirectory: PERL_DIRECTORY,
  warmUp: warmUpRequests,
};

test("E58 the daemon's folder is made once, and anew when it was spoiled", async () => {
  await using home = await makeTempFolder();
  const draft = join(home.path, "daemon", "0123456789abcdef.part");
  await mkdir(draft, { recursive: true });
  const prepare = async () => prepareDaemon(home.path, SOURCES);
  const [folder, second] = await Promise.all([prepare(), prepare()]);
  expect(second).toBe(folder);
  const spoil = [
    () => truncate(join(folder, "manifest.json"), 100),
    () => rm(join(folder, "loader")),
    () => writeFile(join(folder, "sh"), "other"),
    () => writeFile(join(folder, "syscalls.pl"), "other"),
    () => rm(join(folder, "terminal.pl")),
  ];
  for (const work of spoil) {
    await work();
    expect(await prepare()).toBe(folder);
  }
  expect(await readdir(dirname(folder))).toEqual([basename(folder)]);
});

// A home that was copied or restored without the modes of its files, or closed to others by hand.
test("E58 the daemon's folder is made anew when modes in it were changed", async () => {
  await using home = await makeTempFolder();
  const folder = await prepareDaemon(home.path, SOURCES);
  const changes = [
    // Who may read the loader may trace the daemon.
    { name: "loader", mode: 0o711, other: 0o755 },
    { name: "node", mode: 0o755, other: 0o700 },
    { name: "lib", mode: 0o755, other: 0o700 },
    { name: "", mode: 0o755, other: 0o700 },
  ];
  for (const { name, mode, other } of changes) {
    const path = join(folder, name);
    await chmod(path, other);
    expect(await prepareDaemon(home.path, SOURCES)).toBe(folder);
    expect([name, (await stat(path)).mode & 0o777]).toEqual([name, mode]);
  }
});

test("E58 several processes open a new database at once", { timeout: OPEN_LIMIT_MS }, async () => {
  const code = `
    import { openStore } from ${JSON.stringify(join(ROOT, "src/store/sqlite.ts"))};
    const [path, atMs] = process.argv.slice(1);
    while (Date.now() < Number(atMs));
    const store = openStore({ path });
    store.keys.all();
    store[Symbol.dispose]();`;
  for (let round = 0; round < OPEN_ROUNDS; round += 1) {
    await using home = await makeTempFolder();
    const words = [join(home.path, "state.db"), String(Date.now() + START_AFTER_MS)];
    const exits = Array.from({ length: OPENERS }, async () => {
      const program = ["--input-type=module", "-e", code, ...words];
      return once(
        spawn(process.execPath, program, { stdio: ["ignore", "ignore", "inherit"] }),
        "exit",
      );
    });
    expect(await Promise.all(exits)).toEqual(exits.map(() => [0, null]));
  }
});

test("E58 of two that serve one new home, one runs, and the key that it shows opens it", async () => {
  await using home = await openTestHome();
  const words = ["serve", "--home", home.path, "--port", "0", "--pool", "0"];
  await using one = startProgram(words);
  await using two = startProgram(words);
  const listening = async ({ stdout }: typeof one): Promise<string> => {
    let text = "";
    for await (const chunk of stdout) {
      text += String(chunk);
      if (text.includes("\n")) break;
    }
    return /^listening on (\S+)/.exec(text)?.[1] ?? "";
  };
  const urls = await Promise.all([one, two].map(listening));
  const [running, ended] = urls[0] === "" ? [two, one] : [one, two];
  expect(await ended.exited()).not.toBe(0);
  expect(ended.stderr()).toContain("runs already");
  const key = /shown once: (\S+)/.exec(running.stderr())?.[1] ?? "";
  const reply = await fetch(`${urls.join("")}/sandboxes`, { headers: { "x-api-key": key } });
  expect(reply.status).toBe(200);
});
