/** A process that is read from its spool while the spool gets another owner, or goes. */

import { mkdir, readdir, rename, rm } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { expect, test } from "vitest";
import { createSystemClock } from "../../../src/common/clock.ts";
import { pageOutput } from "../../../src/output/page-output.ts";
import { openStored, type StoredProcess } from "../../../src/output/stored-process.ts";
import { END_FILE } from "../../../src/spool/folders.ts";
import type { Spools } from "../../../src/spool/spools.ts";
import { createSpool, makeSpoolDisk, SPOOL_KEY } from "../../support/daemon/spool-disk.ts";

const LIMITS = { fileBytes: 1_000, headBytes: 10_000, tailBytes: 10_000 };
const PAGE = { maxBytes: 1_000, streams: ["stdout"], isRunning: true } as const;

async function open(spools: Spools): Promise<StoredProcess> {
  const found = await spools.find(SPOOL_KEY);
  const stored = found && (await openStored({ spools, clock: createSystemClock(), found }));
  if (stored === undefined) throw new Error("no spool");
  return stored;
}

test("a reader finds the spool with its next owner, from the byte where it was", async () => {
  await using disk = await makeSpoolDisk();
  const [first, second, third] = [disk.start(), disk.start(), disk.start()];
  const writer = createSpool(first, LIMITS);
  await writer.append("stdout", Buffer.from("before "));
  await writer.close(undefined);
  const reader = await open(third);
  await first[Symbol.asyncDispose]();
  const taken = await second.takeOver(writer.place, LIMITS);
  const page = await pageOutput(reader.output, { ...PAGE, cursor: 2 });
  expect(page).toEqual({ texts: [{ stream: "stdout", parts: ["fore "] }], nextCursor: 7 });
  const changed = (await open(third)).changed(AbortSignal.timeout(20_000));
  const seen = reader.changed(AbortSignal.timeout(20_000));
  await taken?.writer.append("stdout", Buffer.from("after"));
  await taken?.writer.close({ endedAtMs: disk.nowMs });
  await Promise.all([changed, seen]);
  const rest = await pageOutput(reader.output, { ...PAGE, cursor: page.nextCursor });
  expect(rest).toEqual({ texts: [{ stream: "stdout", parts: ["after"] }], nextCursor: 12 });
});

test("a spool gets the name of its next owner once its end is forgotten, which a survey would keep", async () => {
  await using disk = await makeSpoolDisk();
  const [first, second] = [disk.start(), disk.start()];
  const writer = createSpool(first, LIMITS);
  await writer.append("stdout", Buffer.from("before "));
  await writer.close({ endedAtMs: disk.nowMs });
  await first[Symbol.asyncDispose]();
  const { folder } = writer.place;
  // An end that cannot be removed.
  await rm(join(folder, END_FILE));
  await mkdir(join(folder, END_FILE));
  await expect(second.takeOver(writer.place, LIMITS)).rejects.toThrow("EISDIR");
  expect(await readdir(dirname(folder))).toEqual([basename(folder)]);
});

test("a spool that is removed does not lead its reader back, and does not run", async () => {
  await using disk = await makeSpoolDisk();
  const writer = createSpool(disk.start(), LIMITS);
  await writer.append("stdout", Buffer.from("before "));
  await writer.flush();
  const reader = await open(disk.start());
  const { folder } = writer.place;
  await rm(join(folder, "0000000000000000"));
  await reader.output.refresh(folder);
  expect(reader.output.totalBytes).toBe(7);
  await rename(folder, join(disk.root, "elsewhere"));
  await reader.changed(AbortSignal.timeout(20_000));
  expect(reader.state).toEqual({ kind: "unwatched" });
  await writer.close(undefined);
});
