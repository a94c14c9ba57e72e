/**
 * Empty file systems. Formatting takes longer than anything else about a disk, and always writes
 * the same: what it wrote for the first disk of a size is written again for the later ones.
 */

import { open, type FileHandle } from "node:fs/promises";
import { SandboxError } from "../../common/errors.ts";
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

/** Where a sparse file has data: lines of first byte and end. */
const FIND_DATA = String.raw`
open(my $file, '<', $ARGV[0]) or die "$!\n";
for (my $end = 0; my $start = sysseek $file, $end, 3; print $start + 0, " $end\n") {
  $end = sysseek $file, $start, 4 or die "$!\n";
}
`;

/** A part of an image that is not a hole. */
interface Run {
  readonly at: number;
  readonly bytes: Buffer;
}

export interface BlankDisks {
  /** Makes a sparse file of this size with an empty file system in it. */
  make(path: string, sizeMb: number, signal: AbortSignal): Promise<void>;
}

/** Remembers for the life of an engine. */
export function createBlankDisks(): BlankDisks {
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
      const written = await readRuns(file, path, signal);
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

/** Undefined for an image that is too much to keep. */
async function readRuns(
  file: FileHandle,
  path: string,
  signal: AbortSignal,
): Promise<readonly Run[] | undefined> {
  const command = launcherCommand([["exec", "perl", "-e", FIND_DATA, path]]);
  const lines = (await runProgram(command, { signal })).trim().split("\n");
  const places = lines.map((line) => line.split(" ").map(Number));
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
