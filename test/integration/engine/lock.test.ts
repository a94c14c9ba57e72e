/** Locks between processes, and what is made once whoever asks and whenever a maker dies. */

import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, rmSync } from "node:fs";
import { mkdir, readdir } from "node:fs/promises";
import { join, resolve } from "node:path";
import { createInterface } from "node:readline";
import { setImmediate as nextTurn } from "node:timers/promises";
import { pathToFileURL } from "node:url";
import { expect, test } from "vitest";
import { SandboxError } from "../../../src/common/errors.ts";
import { draftOf } from "../../../src/common/files.ts";
import { createOnce, removeDeadDrafts } from "../../../src/engine/host/drafts.ts";
import { holdLock, tryLock, tryLockFile, withLock } from "../../../src/engine/host/lock.ts";
import { findMade, MADE, MADE_FILES } from "../../support/engine/once-maker.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const MAKER = resolve(import.meta.dirname, "../../support/engine/once-maker.ts");

/** A maker in a process of its own; `line` resolves with each line that it prints. */
function startMaker(home: string, mode: "stay" | "go" = "go") {
  const words = [MAKER, home, mode];
  const child = spawn(process.execPath, words, { stdio: ["pipe", "pipe", "inherit"] });
  const lines = createInterface({ input: child.stdout })[Symbol.asyncIterator]();
  const exit = once(child, "exit");
  return { child, exit, line: async () => (await lines.next()).value };
}

test("E58 a lock is one holder's until it is released", async () => {
  await using home = await makeTempFolder();
  const first = await holdLock(home.path, "host");
  expect(await tryLock(home.path, "host")).toBeUndefined();
  await withLock({ home: home.path, name: "base" }, async () => undefined);
  const second = holdLock(home.path, "host");
  await first[Symbol.asyncDispose]();
  await (await second)[Symbol.asyncDispose]();
  await using third = await tryLock(home.path, "host");
  expect(third).toBeDefined();
});

test("E58 the lock of a file that its holder removed is no lock", async () => {
  await using home = await makeTempFolder();
  const path = join(home.path, "copy.lock");
  const first = tryLockFile(path);
  while (!existsSync(path)) await nextTurn();
  // In the same turn: the first one has this file open, and takes its lock later.
  rmSync(path);
  const second = await tryLockFile(path);
  expect(await first).toBeUndefined();
  expect(second).toBeDefined();
  await second?.[Symbol.asyncDispose]();
});

test("E58 a wait for a lock ends at its bound and by its signal", async () => {
  await using home = await makeTempFolder();
  const held = await holdLock(home.path, "host");
  const late = holdLock(home.path, "host", { timeoutMs: 50 });
  await expect(late).rejects.toMatchObject({ code: "unavailable" });
  const stop = new AbortController();
  const stopped = holdLock(home.path, "host", { signal: stop.signal });
  stop.abort();
  await expect(stopped).rejects.toMatchObject({ code: "canceled" });
  await held[Symbol.asyncDispose]();
  const gone = join(home.path, "gone");
  await expect(holdLock(gone, "host")).rejects.toMatchObject({ code: "unavailable" });
});

test("E58 a maker that is killed leaves the lock, and a draft that the next one removes", async () => {
  await using home = await makeTempFolder();
  const killed = startMaker(home.path, "stay");
  expect(await killed.line()).toBe("begun");
  const waiting = startMaker(home.path);
  const drafts = { home: home.path, folder: home.path, prefix: MADE, lock: "host" } as const;
  // The draft of a living maker is nobody else's to remove.
  expect(await removeDeadDrafts(drafts, () => expect.unreachable())).toEqual([]);
  killed.child.kill("SIGKILL");
  expect(await waiting.line()).toBe("begun");
  expect(await waiting.line()).toBe(`found ${MADE_FILES.length}`);
  expect((await readdir(home.path)).toSorted()).toEqual(["host.lock", MADE]);
});

test("E58 the draft of a dead maker goes, whoever looks", async () => {
  await using home = await makeTempFolder();
  const killed = startMaker(home.path, "stay");
  await killed.line();
  killed.child.kill("SIGKILL");
  await killed.exit;
  const drafts = { home: home.path, folder: home.path, prefix: MADE, lock: "host" } as const;
  expect(await removeDeadDrafts(drafts, () => expect.unreachable())).toHaveLength(1);
  expect(await readdir(home.path)).toEqual(["host.lock"]);
});

test("E58 the draft of a dead maker goes although another only looks", async () => {
  await using home = await makeTempFolder();
  await mkdir(join(home.path, draftOf(MADE)));
  const looking = await holdLock(home.path, "host");
  setTimeout(() => void looking[Symbol.asyncDispose](), 300);
  const drafts = { home: home.path, folder: home.path, prefix: MADE, lock: "host" } as const;
  expect(await removeDeadDrafts(drafts, () => expect.unreachable())).toEqual([draftOf(MADE)]);
});

test("E58 five processes and one of them killed: one maker at a time, all find the same", async () => {
  await using home = await makeTempFolder();
  const makers = Array.from({ length: 5 }, () => startMaker(home.path));
  const first = await Promise.race(
    makers.map(async (maker) => ({ maker, line: await maker.line() })),
  );
  expect(first.line).toBe("begun");
  first.maker.child.kill("SIGKILL");
  const others = makers.filter((maker) => maker !== first.maker);
  const exits = await Promise.all(others.map(async ({ exit }) => exit));
  expect(exits).toEqual(others.map(() => [0, null]));
  expect(await findMade(home.path)).toHaveLength(MADE_FILES.length);
});

test("E58 callers of one process share an attempt; it ends with the last that waits", async () => {
  await using home = await makeTempFolder();
  const make = createOnce<string>();
  const begun = Promise.withResolvers<AbortSignal>();
  const end = Promise.withResolvers<string>();
  let made = 0;
  const task = {
    home: home.path,
    lock: "host",
    find: async () => undefined,
    make: async (signal: AbortSignal) => {
      made += 1;
      begun.resolve(signal);
      return end.promise;
    },
  } as const;
  const stops = [new AbortController(), new AbortController()] as const;
  const calls = stops.map(({ signal }) => make("path", task, signal));
  const signal = await begun.promise;
  stops[0].abort();
  await expect(calls[0]).rejects.toMatchObject({ code: "canceled" });
  expect([made, signal.aborted]).toEqual([1, false]);
  stops[1].abort();
  await expect(calls[1]).rejects.toMatchObject({ code: "canceled" });
  expect(signal.aborted).toBe(true);
  end.reject(new SandboxError("canceled", "stopped"));
  const again = make("path", { ...task, make: async () => "anew" });
  expect(await again).toBe("anew");
});

test("E58 what fails is told to all that waited, and made by the next call", async () => {
  await using home = await makeTempFolder();
  await mkdir(join(home.path, "layers"));
  const make = createOnce<string>();
  const fault = new SandboxError("resource_exhausted", "full");
  const task = { home: home.path, lock: "host", find: async () => undefined } as const;
  const failing = { ...task, make: async () => Promise.reject(fault) };
  const results = await Promise.allSettled([make("a", failing), make("a", failing)]);
  expect(results.map(({ status }) => status)).toEqual(["rejected", "rejected"]);
  expect(await make("a", { ...task, make: async () => "made" })).toBe("made");
});

test("E58 a folder whose lock cannot be taken is not kept open", async () => {
  await using home = await makeTempFolder();
  const module = resolve(import.meta.dirname, "../../../src/engine/storage/mount-point.ts");
  // Two descriptors are free: one for the folder, and fewer than flock(1) needs to start, also where a
  // thread of the engine takes one for a moment.
  const script = `
    import { closeSync, openSync } from "node:fs";
    const { holdMount } = await import(${JSON.stringify(module)});
    const files = [];
    const take = () => files.push(openSync("/dev/null"));
    const give = () => closeSync(files.pop());
    try { for (;;) take(); } catch { give(); give(); }
    const code = await holdMount(${JSON.stringify(home.path)}).then(() => "held", ({ code }) => code);
    take(); take();
    give();
    process.stdout.write(code);
  `;
  const words = ["--input-type=module", "--eval", script];
  const run = spawnSync("prlimit", ["--nofile=64", process.execPath, ...words], {
    encoding: "utf8",
  });
  expect([run.stdout, run.stderr]).toEqual(["unavailable", ""]);
});

test("a lock is waited for also where no signal may be pending", async () => {
  await using home = await makeTempFolder();
  const url = pathToFileURL(resolve(import.meta.dirname, "../../../src/engine/host/lock.ts")).href;
  const script = `const { tryLock } = await import(${JSON.stringify(url)});
    await using free = await tryLock(${JSON.stringify(home.path)}, "host", 60);
    const held = await tryLock(${JSON.stringify(home.path)}, "host", 0.1);
    console.log(free !== undefined, held === undefined);`;
  const words = ["--input-type=module", "--eval", script];
  const { stdout, stderr } = spawnSync("prlimit", ["--sigpending=0", process.execPath, ...words], {
    encoding: "utf8",
  });
  expect([stdout, stderr]).toEqual(["true true\n", ""]);
});
