/**
 * Empty disk images. Formatting always writes the same and takes longer than anything else: what it
 * wrote for the first disk of a size is written for later ones.
 */

import { type FileHandle, open } from "node:fs/promises";
import { SandboxError } from "../../common/errors.ts";
import { launcherCommand } from "../host/launcher.ts";
import { perlCommand } from "../host/perl-program.ts";
import { runProgram } from "../host/run-program.ts";

/** Nothing is written that an empty image of zeros has already. */
const EXTENDED = "lazy_itable_init=1,lazy_journal_init=1,nodiscard";
const BYTES_PER_MB = 1024 * 1024;
/** A service makes disks of one size, as a rule; what templates ask for besides is formatted. */
const MAX_SIZES = 4;
/** Of an image: more than ten times what one of the usual sizes takes. */
const MAX_KEPT_BYTES = 4 * BYTES_PER_MB;

/** A part of an image that is not a hole. */
interface Run {
  readonly at: number;
  readonly bytes: Buffer;
}

export interface BlankDisks {
  /** Makes a sparse file of this size with an empty file system in it. */
  make(path: string, sizeMb: number, signal: AbortSignal): Promise<void>;
}

/**
 * Remembers for the life of an engine. Without a journal, because the disk of a container does not
 * outlive it; with `journalMb` for disks that outlive a crash of the machine.
 */
export function createBlankDisks(
  perlDirectory: string,
  journalMb?: (sizeMb: number) => number,
): BlankDisks {
  const known = new Map<number, readonly Run[]>();
  return {
    async make(path, sizeMb, signal) {
      const runs = known.get(sizeMb);
      await using file = await open(path, "wx+", 0o600);
      await file.truncate(sizeMb * BYTES_PER_MB);
      if (runs !== undefined) {
        await writeRuns(file, runs);
        return;
      }
      await format(path, journalMb?.(sizeMb), signal);
      if (known.size >= MAX_SIZES) return;
      const extents = await findData(perlDirectory, path, signal);
      const written = await readRuns(file, extents);
      if (written !== undefined) known.set(sizeMb, written);
    },
  };
}

async function writeRuns(file: FileHandle, runs: readonly Run[]): Promise<void> {
  for (const { at, bytes } of runs) {
    const { bytesWritten } = await file.write(bytes, 0, bytes.length, at);
    if (bytesWritten !== bytes.length) throw new SandboxError("unavailable", "disk was not made");
  }
}

async function format(
  path: string,
  journalMb: number | undefined,
  signal: AbortSignal,
): Promise<void> {
  const journal = journalMb === undefined ? ["-O", "^has_journal"] : ["-J", `size=${journalMb}`];
  const options = ["-q", "-F", "-m", "0", ...journal, "-E", EXTENDED];
  await runProgram(["mkfs.ext4", ...options, path], { signal });
}

/** Where a sparse file has data: pairs of first byte and end. */
async function findData(
  perlDirectory: string,
  path: string,
  signal: AbortSignal,
): Promise<readonly (readonly number[])[]> {
  const command = launcherCommand(perlDirectory, [
    ["exec", ...perlCommand(perlDirectory, "find-data", [path])],
  ]);
  const lines = (await runProgram(command, { signal })).trim().split("\n");
  return lines.map((line) => line.split(" ").map(Number));
}

/** Undefined for an image that is too much to keep. */
async function readRuns(
  file: FileHandle,
  places: readonly (readonly number[])[],
): Promise<readonly Run[] | undefined> {
  const total = places.reduce((sum, [at = 0, end = 0]) => sum + end - at, 0);
  if (total === 0 || total > MAX_KEPT_BYTES) return undefined;
  const runs: Run[] = [];
  for (const [at = 0, end = 0] of places) {
    const bytes = Buffer.alloc(end - at);
    const { bytesRead } = await file.read(bytes, 0, bytes.length, at);
    if (bytesRead !== bytes.length) return undefined;
    runs.push({ at, bytes });
  }
  return runs;
}
