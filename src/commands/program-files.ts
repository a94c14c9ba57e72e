/**
 * The files that the program runs, or copies into sandboxes, besides its own code: they lie beside
 * the program and, run from source, in their own directories.
 */

import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { copyFile, mkdir, readdir } from "node:fs/promises";
import { join } from "node:path";
import { cleanUp, type TellFailure } from "../common/clean-up.ts";
import type { Logger } from "../common/log.ts";
import { removeTree } from "../common/remove-tree.ts";
import { readStartTicks } from "../engine/oci/container-record.ts";
import { listFolder } from "../spool/folders.ts";

export interface ProgramFiles {
  /** The bundle of the daemon, and what starts it. */
  readonly bundle: string;
  readonly starter: string;
  /** The program of egress rules. */
  readonly egress: string;
  /** The shell program of the guardian. */
  readonly guardian: string;
  readonly perlDirectory: string;
  readonly interpreterDirectory: string;
}

/** Where services keep their copies in a home. */
const COPIES = "programs";
/** A copy is named for its process: number and start, because numbers are used again. */
const COPY_PATTERN = /^([0-9]+)x([0-9]+)x[0-9a-f]{16}$/;

/** The files as they were installed. */
export function findProgramFiles(): ProgramFiles {
  return {
    bundle: find("envd.cjs", "../../dist/envd.cjs"),
    starter: find("envd-starter.cjs", "../../dist/envd-starter.cjs"),
    egress: find("egress.mjs", "../../dist/egress.mjs"),
    guardian: find("guardian.sh", "../shell/guardian.sh"),
    perlDirectory: join(find("syscalls.pl", "../perl/syscalls.pl"), ".."),
    interpreterDirectory: find("interpreter", "../interpreter"),
  };
}

function find(name: string, fromSource: string): string {
  const beside = join(import.meta.dirname, name);
  return existsSync(beside) ? beside : join(import.meta.dirname, fromSource);
}

/**
 * A copy of the files in a home, for as long as this process uses it: an update replaces the
 * installed ones, and those of another version do not fit a service that is running. If the disk is
 * full, the installed files.
 */
export async function holdProgramFiles(
  home: string,
  log: Logger,
): Promise<ProgramFiles & AsyncDisposable> {
  try {
    await removeDeadCopies(home, ({ name, error }) =>
      log.warn({ op: "programs", name, err: error }, "an old copy could not be removed"),
    );
    return await copyProgramFiles(home);
  } catch (error) {
    log.warn({ op: "programs", err: error }, "an update of the program now needs a restart");
    return { ...findProgramFiles(), [Symbol.asyncDispose]: async () => undefined };
  }
}

async function copyProgramFiles(home: string): Promise<ProgramFiles & AsyncDisposable> {
  const installed = findProgramFiles();
  const parent = join(home, COPIES);
  const { pid } = process;
  const own = `${pid}x${readStartTicks(pid)}x${randomBytes(8).toString("hex")}`;
  const directory = join(parent, own);
  const remove = async () => removeTree(directory);
  const { bundle, starter, egress, guardian, perlDirectory, interpreterDirectory } = installed;
  const copy = {
    bundle: join(directory, "envd.cjs"),
    starter: join(directory, "envd-starter.cjs"),
    egress: join(directory, "egress.mjs"),
    guardian: join(directory, "guardian.sh"),
    perlDirectory: directory,
    interpreterDirectory: join(directory, "interpreter"),
  };
  try {
    await mkdir(copy.interpreterDirectory, { recursive: true, mode: 0o755 });
    await copyFile(bundle, copy.bundle);
    await copyFile(starter, copy.starter);
    await copyFile(egress, copy.egress);
    await copyFile(guardian, copy.guardian);
    await copyFiles(perlDirectory, directory, ".pl");
    await copyFiles(interpreterDirectory, copy.interpreterDirectory, "");
  } catch (error) {
    await remove();
    throw error;
  }
  return { ...copy, [Symbol.asyncDispose]: remove };
}

async function copyFiles(from: string, to: string, ending: string): Promise<void> {
  for (const entry of await readdir(from, { withFileTypes: true })) {
    if (!entry.isFile() || !entry.name.endsWith(ending)) continue;
    await copyFile(join(from, entry.name), join(to, entry.name));
  }
}

/** Removes the copies of processes that ended without it. Returns their names. */
export async function removeDeadCopies(home: string, tell: TellFailure): Promise<string[]> {
  const parent = join(home, COPIES);
  const dead: string[] = [];
  for (const name of await listFolder(parent)) {
    const [, pid, ticks] = COPY_PATTERN.exec(name) ?? [];
    if (pid === undefined) continue;
    if (readStartTicks(Number(pid)) !== ticks) dead.push(name);
  }
  const remove = async (name: string) => removeTree(join(parent, name));
  return cleanUp({ kind: "programs", names: dead, remove }, tell);
}
