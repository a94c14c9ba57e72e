/** Spools on the disk: whole by position, bounded with a gap that shows, owned, kept for a while. */

import { createHash } from "node:crypto";
import { existsSync } from "node:fs";
import { mkdir, readdir, rm, stat, truncate, utimes, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect, onTestFinished, test, vi } from "vitest";
import type { CleanUpFailure } from "../../../src/common/clean-up.ts";
import { createSilentLog } from "../../../src/common/log.ts";
import { ProcessOutput } from "../../../src/output/process-output.ts";
import type { SpoolClock } from "../../../src/spool/ages.ts";
import { collectHome } from "../../../src/spool/collect.ts";
import { readEnding } from "../../../src/spool/folders.ts";
import { measureSpool, readPieces } from "../../../src/spool/reader.ts";
import { startSpools, type Spools } from "../../../src/spool/spools.ts";
import { SpoolWriter } from "../../../src/spool/writer.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

const MIB = 1024 * 1024;
const LIMITS = { fileBytes: MIB, headBytes: 2 * MIB, tailBytes: 3 * MIB };
const KEY = { sandboxId: "i1", name: "p_7" };
const MINUTE_MS = 60_000;
const fail = ({ error }: CleanUpFailure) => {
  throw error;
};

interface Disk extends AsyncDisposable {
  readonly home: string;
  readonly root: string;
  nowMs: number;
  readonly clock: SpoolClock;
  /** A server of its own on this disk. */
  start(limits?: { readonly sandboxBytes: number; readonly homeBytes: number }): Spools;
}

async function makeDisk(): Promise<Disk> {
  await using stack = new AsyncDisposableStack();
  const { path: home } = stack.use(await makeTempFolder());
  const owned = stack.move();
  const root = join(home, "local");
  const disk: Disk = {
    home,
    root,
    nowMs: Date.now(),
    clock: { now: () => disk.nowMs, elapsed: () => disk.nowMs },
    start: (limits) =>
      owned.use(
        startSpools({
          root,
          clock: disk.clock,
          log: createSilentLog(),
          ...(limits && { limits }),
        }),
      ),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
  return disk;
}

function create(spools: Spools, key = KEY, limits = LIMITS): SpoolWriter {
  const writer = spools.create(key, limits);
  if (writer === undefined) throw new Error("no spool");
  return writer;
}

/** Bytes that are nowhere twice, so that a wrong place shows. */
function bytesOf(count: number, seed = 0): Buffer {
  const words = new Uint32Array(Math.ceil(count / 4));
  for (let index = 0; index < words.length; index += 1) {
    words[index] = Math.imul(index + seed * 7_919, 2_654_435_761);
  }
  return Buffer.from(words.buffer).subarray(0, count);
}

async function write(writer: SpoolWriter, bytes: Buffer, voice: "stdout" | "stderr" = "stdout") {
  for (let at = 0; at < bytes.length; at += 32_768) {
    await writer.append(voice, bytes.subarray(at, at + 32_768));
  }
}

async function readAll(folder: string): Promise<Buffer> {
  const parts: Buffer[] = [];
  let at = 0;
  for (;;) {
    const pieces = await readPieces(folder, at, 300_000);
    const last = pieces.at(-1);
    if (last === undefined) return Buffer.concat(parts);
    for (const { bytes } of pieces) parts.push(bytes);
    at = last.start + last.bytes.length;
  }
}

function hashOf(bytes: Buffer): string {
  return createHash("sha256").update(bytes).digest("hex");
}

async function sizeOf(folder: string): Promise<number> {
  const names = await readdir(folder);
  const sizes = await Promise.all(names.map(async (name) => (await stat(join(folder, name))).size));
  return sizes.reduce((sum, size) => sum + size, 0);
}

test("output that memory holds in two parts is read to its end at once", async () => {
  await using disk = await makeDisk();
  const output = new ProcessOutput(create(disk.start()));
  const bytes = bytesOf(300_000);
  await output.append("stdout", bytes);
  const pieces = await output.pieces(200_000, 100_000);
  await output.close({});
  expect(Buffer.concat(pieces.map((piece) => piece.bytes))).toEqual(bytes.subarray(200_000));
});

test("what is written is read from any position, each byte with its voice", async () => {
  await using disk = await makeDisk();
  const writer = create(disk.start());
  const bytes = bytesOf(3 * MIB);
  await write(writer, bytes.subarray(0, 2 * MIB));
  await write(writer, Buffer.from("oops"), "stderr");
  await write(writer, bytes.subarray(2 * MIB));
  await writer.flush();
  const at = 2 * MIB - 2;
  const found = await readPieces(writer.place.folder, at, 8);
  expect(found.slice(0, 2).map(({ stream, start, bytes: part }) => [stream, start, part])).toEqual([
    ["stdout", at, bytes.subarray(at, 2 * MIB)],
    ["stderr", 2 * MIB, Buffer.from("oops")],
  ]);
  expect(await measureSpool(writer.place.folder)).toEqual({
    written: { stdout: 3 * MIB, stderr: 4, note: 0 },
    end: 3 * MIB + 4,
    gap: { start: 0, end: 0 },
  });
  await writer.close(undefined);
});

test("whoever is faster than the disk waits, and nothing is lost", async () => {
  await using disk = await makeDisk();
  const limits = { fileBytes: MIB, headBytes: 64 * MIB, tailBytes: 64 * MIB };
  const writer = create(disk.start(), KEY, limits);
  const bytes = bytesOf(24 * MIB);
  const waits: unknown[] = [];
  for (let at = 0; at < bytes.length; at += 65_536) {
    const behind = writer.append("stdout", bytes.subarray(at, at + 65_536));
    if (behind !== undefined) waits.push(await behind);
  }
  expect(waits.length).toBeGreaterThan(0);
  await writer.close({ endedAtMs: 1 });
  expect(hashOf(await readAll(writer.place.folder))).toBe(hashOf(bytes));
});

test("beyond its limits the first and the newest part stay, and the gap is told", async () => {
  await using disk = await makeDisk();
  const writer = create(disk.start());
  const bytes = bytesOf(20 * MIB);
  await write(writer, bytes);
  await writer.flush();
  const { folder } = writer.place;
  const { gap, end } = await measureSpool(folder);
  expect({ end, gap }).toEqual({ end: bytes.length, gap: writer.gap });
  expect(await sizeOf(folder)).toBeLessThan(LIMITS.headBytes + LIMITS.tailBytes + MIB);
  expect([gap.start > MIB, bytes.length - gap.end > MIB]).toEqual([true, true]);
  const kept = Buffer.concat([bytes.subarray(0, gap.start), bytes.subarray(gap.end)]);
  expect(hashOf(await readAll(folder))).toBe(hashOf(kept));
  const [next] = await readPieces(folder, gap.start, 1);
  expect(next?.start).toBe(gap.end);
  await writer.close(undefined);
});

test("voices that alternate with every byte stay within the limits", async () => {
  await using disk = await makeDisk();
  const writer = create(disk.start());
  for (let index = 0; index < 2_000_000; index += 1) {
    const behind = writer.append(index % 2 === 0 ? "stdout" : "stderr", Buffer.from("x"));
    if (behind !== undefined) await behind;
  }
  await writer.flush();
  const { folder } = writer.place;
  expect(await sizeOf(folder)).toBeLessThan(LIMITS.headBytes + LIMITS.tailBytes + MIB);
  expect((await measureSpool(folder)).written).toEqual({
    stdout: 1_000_000,
    stderr: 1_000_000,
    note: 0,
  });
  await writer.close(undefined);
});

test("a torn end of a file costs no more than what is torn off", async () => {
  await using disk = await makeDisk();
  const writer = create(disk.start());
  await write(writer, Buffer.from("0123456789"));
  await writer.close(undefined);
  const { folder } = writer.place;
  const [name = ""] = await readdir(folder);
  await truncate(join(folder, name), (await stat(join(folder, name))).size - 4);
  expect((await readAll(folder)).toString()).toBe("012345");
});

test("a disk that takes nothing ends the spool, not the writer's work", async () => {
  await using disk = await makeDisk();
  const place = { ...KEY, createdAtMs: 1, owner: "00", folder: join(disk.home, "x") };
  let files = 0;
  const writer = new SpoolWriter({
    place,
    limits: LIMITS,
    makeFolder: async ({ folder }) => mkdir(folder),
    requestSpace: async () => {
      files += 1;
      return files <= 2 ? "free" : "none";
    },
  });
  await write(writer, bytesOf(8 * MIB));
  await writer.flush();
  const { end } = await measureSpool(place.folder);
  expect([writer.failure, writer.end]).toEqual([
    { error: new Error("the disk is nearly full"), position: end },
    8 * MIB,
  ]);
  await writer.close(undefined);
});

test("a spool whose disk answers too late has its end once it does", async () => {
  await using disk = await makeDisk();
  const folder = join(disk.home, "x");
  const place = { ...KEY, createdAtMs: 1, owner: "00", folder };
  const answered = Promise.withResolvers<void>();
  const writer = new SpoolWriter({
    place,
    limits: LIMITS,
    async makeFolder() {
      await answered.promise;
      await mkdir(folder);
    },
    requestSpace: async () => "free",
  });
  await write(writer, Buffer.from("late"));
  await writer.close({ endedAtMs: 7 });
  answered.resolve();
  await expect.poll(() => readEnding(place)).toEqual({ endedAtMs: 7, totalBytes: 4 });
}, 20_000);

test("a spool is taken over when its owner is dead, by one, and goes on where it was", async () => {
  await using disk = await makeDisk();
  const first = disk.start();
  const writer = create(first);
  await write(writer, Buffer.from("before "));
  await writer.park();
  const [second, third] = [disk.start(), disk.start()];
  expect(await second.find(KEY)).toMatchObject({ isLive: true, ending: undefined });
  await first[Symbol.asyncDispose]();
  const found = await second.find(KEY);
  expect(found).toMatchObject({ isLive: false, ending: undefined });
  const place = found?.place ?? writer.place;
  const taken = await Promise.all([second.takeOver(place, LIMITS), third.takeOver(place, LIMITS)]);
  const winners = taken.filter((one) => one !== undefined);
  expect(winners).toHaveLength(1);
  const [winner] = winners;
  await winner?.writer.append("stdout", Buffer.from("after"));
  await winner?.writer.close({ endedAtMs: disk.nowMs, word: "done" });
  expect((await readAll(winner?.writer.place.folder ?? "")).toString()).toBe("before after");
  expect(await third.find(KEY)).toMatchObject({ isLive: false, ending: { word: "done" } });
});

test("nobody but the user of the home gets in", async () => {
  await using disk = await makeDisk();
  const writer = create(disk.start());
  await write(writer, Buffer.from("x"));
  await writer.close({ endedAtMs: 0 });
  const paths = await readdir(disk.home, { recursive: true });
  const modes = await Promise.all(
    paths.map(async (path) => (await stat(join(disk.home, path))).mode & 0o777),
  );
  expect(paths.length).toBeGreaterThan(4);
  expect(modes.filter((mode) => (mode & 0o077) !== 0)).toEqual([]);
});

test("of two spools of one name the newer one counts", async () => {
  await using disk = await makeDisk();
  const spools = disk.start();
  for (const text of ["old", "new"]) {
    const writer = create(spools);
    await write(writer, Buffer.from(text));
    await writer.close({ endedAtMs: disk.nowMs });
    disk.nowMs += 1;
  }
  const found = await spools.find(KEY);
  expect((await readAll(found?.place.folder ?? "")).toString()).toBe("new");
});

test("an ended spool is kept for 15 minutes, one whose owner died too, a live one longer", async () => {
  await using disk = await makeDisk();
  const dead = disk.start();
  const orphan = create(dead, { ...KEY, name: "p_8" });
  await write(orphan, Buffer.from("x"));
  await orphan.park();
  await dead[Symbol.asyncDispose]();
  const spools = disk.start();
  const ended = create(spools);
  await write(ended, Buffer.from("x"));
  await ended.close({ endedAtMs: disk.nowMs });
  const live = create(spools, { ...KEY, name: "p_9" });
  await write(live, Buffer.from("x"));
  await live.park();
  disk.nowMs += 14 * MINUTE_MS;
  expect(await collectHome(disk.home, disk.clock, fail)).toEqual([]);
  disk.nowMs += 2 * MINUTE_MS;
  // A live owner writes at any time, whatever its files say.
  const names = await readdir(live.place.folder);
  await utimes(join(live.place.folder, names[0] ?? ""), 1, 1);
  const removed = await collectHome(disk.home, disk.clock, fail);
  expect(removed.toSorted()).toEqual(["i1/p_7", "i1/p_8"]);
  expect(await readdir(join(disk.root, "i1"))).toEqual([expect.stringMatching(/^p_9\./)]);
  await live.close(undefined);
});

test("the output of a silent process is kept for 15 minutes after the end of its server", async () => {
  await using disk = await makeDisk();
  const first = disk.start();
  const silent = create(first);
  await write(silent, Buffer.from("x"));
  await silent.park();
  const { folder } = silent.place;
  // Nothing has come for an hour.
  disk.nowMs += 60 * MINUTE_MS;
  await first[Symbol.asyncDispose]();
  const second = disk.start();
  disk.nowMs += 14 * MINUTE_MS;
  expect(await collectHome(disk.home, disk.clock, fail)).toEqual([]);
  expect(await second.find(KEY)).toMatchObject({ isLive: false, ending: undefined });
  expect((await readAll(folder)).toString()).toBe("x");
  disk.nowMs += 2 * MINUTE_MS;
  expect(await collectHome(disk.home, disk.clock, fail)).toEqual(["i1/p_7"]);
});

test("a clock that is set ahead takes no output away, of this server or of one before", async () => {
  await using disk = await makeDisk();
  const before = disk.start();
  const first = create(before, { ...KEY, name: "p_8" });
  await write(first, Buffer.from("x"));
  await first.close({ endedAtMs: disk.nowMs });
  await before[Symbol.asyncDispose]();
  vi.useFakeTimers({ toFake: ["setInterval", "clearInterval"] });
  onTestFinished(() => void vi.useRealTimers());
  const clock = { now: () => disk.nowMs, elapsed: () => elapsedMs };
  let elapsedMs = 0;
  await using spools = startSpools({ root: disk.root, clock, log: createSilentLog() });
  /** The lease of a dead owner goes last. */
  const collected = async () => {
    const dead = join(disk.root, "0123456789abcdef.sock");
    await writeFile(dead, "");
    elapsedMs += MINUTE_MS;
    const isThere = () => {
      // None begins beside a look that is under way, as the first one may be.
      vi.advanceTimersByTime(MINUTE_MS);
      return existsSync(dead);
    };
    await expect.poll(isThere).toBe(false);
  };
  const own = create(spools);
  await write(own, Buffer.from("x"));
  await own.flush();
  await collected();
  await own.close({ endedAtMs: disk.nowMs });
  disk.nowMs += 60 * MINUTE_MS;
  await collected();
  const names = await readdir(join(disk.root, "i1"));
  expect(names.toSorted()).toEqual([
    expect.stringMatching(/^p_7\./),
    expect.stringMatching(/^p_8\./),
  ]);
});

test("what dead owners leave goes with their last spool", async () => {
  await using disk = await makeDisk();
  const spools = disk.start();
  const writer = create(spools);
  await write(writer, Buffer.from("x"));
  await writer.close({ endedAtMs: 0 });
  await spools[Symbol.asyncDispose]();
  await collectHome(disk.home, disk.clock, fail);
  expect(await readdir(disk.root)).toEqual([]);
});

test("a sandbox that takes too much loses what ended, the oldest first", async () => {
  await using disk = await makeDisk();
  const start = () => disk.start({ sandboxBytes: 6 * MIB, homeBytes: 100 * MIB });
  const fill = async (name: string): Promise<void> => {
    // What others wrote is seen at the first look.
    const writer = create(start(), { ...KEY, name });
    await write(writer, bytesOf(2 * MIB));
    await writer.close({ endedAtMs: disk.nowMs });
    disk.nowMs += 1;
  };
  for (const name of ["p_1", "p_2", "p_3"]) await fill(name);
  const spools = start();
  const found = await Promise.all(
    ["p_1", "p_2", "p_3"].map(async (name) => (await spools.find({ ...KEY, name })) !== undefined),
  );
  expect(found).toEqual([false, true, true]);
});

test("one process that takes all that its sandbox may have drops its own older output", async () => {
  await using disk = await makeDisk();
  const spools = disk.start({ sandboxBytes: 4 * MIB, homeBytes: 100 * MIB });
  const writer = create(spools, KEY, { fileBytes: MIB, headBytes: MIB, tailBytes: 100 * MIB });
  await write(writer, bytesOf(30 * MIB));
  await writer.flush();
  expect(await sizeOf(writer.place.folder)).toBeLessThan(7 * MIB);
  expect(writer.gap.end).toBeGreaterThan(20 * MIB);
  await writer.close(undefined);
});

test("a disk that takes no spool at first gets one later", async () => {
  await using disk = await makeDisk();
  await writeFile(disk.root, "");
  const spools = disk.start();
  const first = create(spools);
  await write(first, bytesOf(10));
  await first.flush();
  expect(first.failure).toMatchObject({ position: 0 });
  await rm(disk.root);
  const second = create(spools);
  await write(second, bytesOf(10));
  await second.flush();
  expect(await readAll(second.place.folder)).toEqual(bytesOf(10));
});
