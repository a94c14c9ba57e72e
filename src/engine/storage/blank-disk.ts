/**
 * Empty file systems. Formatting takes longer than anything else about a disk, and always writes
 * the same: what it wrote for the first disk of a size is written again for the later ones.
 */

import { open, type FileHandle } from "node:fs/promises";
import { SandboxError } from "../../common/errors.ts";
import { perlCommand } from "../host/perl-program.ts";
import { runProgram } from "../host/run-program.ts";
import { launcherCommand } from "../oci/launcher.ts";

// No journal and no eager inode tables: the disk does not outlive its container, and an empty one
// takes a few hundred kilobytes then.
const FORMAT_OPTIONS = "lazy_itable_init=1,nodiscard";
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

/** Remembers for the life of an engine. `perlDirectory` is where the perl programs lie. */
export function createBlankDisks(perlDirectory: string): BlankDisks {
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
      await format(path, signal);
      if (known.size >= MAX_SIZES) return;
      const places = await findData(perlDirectory, path, signal);
      const written = await readRuns(file, places);
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

async function format(path: string, signal: AbortSignal): Promise<void> {
  const options = ["-q", "-F", "-m", "0", "-O", "^has_journal", "-E", FORMAT_OPTIONS];
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
