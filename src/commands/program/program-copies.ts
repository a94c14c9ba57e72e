/** Copies of the program's files in the home: each service runs from one, and an update does not change it. */

import { randomBytes } from "node:crypto";
import { copyFile, mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { cleanUp, type TellFailure } from "../../common/clean-up.ts";
import { SandboxError } from "../../common/errors.ts";
import type { Logger } from "../../common/log.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { tryLockFile } from "../../engine/host/lock.ts";
import { readStartTicks } from "../../engine/host/process-stat.ts";
import { listFolder } from "../../spool/folders.ts";
import { findProgramFiles, type ProgramFiles } from "./program-files.ts";

/** Where services keep their copies in a home. */
const COPIES = "programs";
/**
 * Beside each copy a file has this ending, which the process of the copy keeps locked: the kernel releases
 * it when the process ends, and knows it in every container that has the home.
 */
const LOCK_END = ".lock";
const MAX_ATTEMPTS = 5;
const COPY_PATTERN = /^([0-9a-f]{32})(?:\.lock)?$/;
/** Of an older version: number and start of its process. */
const OLDER_PATTERN = /^([0-9]+)x([0-9]+)x[0-9a-f]{16}$/;

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
  await mkdir(parent, { recursive: true, mode: 0o755 });
  const { directory, lock } = await beginCopy(parent);
  const remove = async () => {
    await removeTree(directory);
    await rm(directory + LOCK_END, { force: true });
    await lock[Symbol.asyncDispose]();
  };
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

/** A name and its lock; a clean-up that sees the file before it is locked takes it for a dead one's. */
async function beginCopy(parent: string) {
  for (let attempt = 0; attempt < MAX_ATTEMPTS; attempt += 1) {
    const directory = join(parent, randomBytes(16).toString("hex"));
    const lock = await tryLockFile(directory + LOCK_END);
    if (lock !== undefined) return { directory, lock };
  }
  throw new SandboxError("unavailable", "clean-ups took each new copy for an old one");
}

/** Removes the copies of processes that ended without it. Returns their names. */
export async function removeDeadCopies(home: string, tell: TellFailure): Promise<string[]> {
  const parent = join(home, COPIES);
  const names = await listFolder(parent);
  const older = names.filter((name) => {
    const [, pid, ticks] = OLDER_PATTERN.exec(name) ?? [];
    return pid !== undefined && readStartTicks(Number(pid)) !== ticks;
  });
  await using locks = new AsyncDisposableStack();
  const dead = new Map<string, AsyncDisposable>();
  for (const name of new Set(names.flatMap((found) => COPY_PATTERN.exec(found)?.[1] ?? []))) {
    try {
      const lock = await tryLockFile(join(parent, name) + LOCK_END);
      if (lock !== undefined) dead.set(name, locks.use(lock));
    } catch (error) {
      tell({ kind: "programs", name, error });
    }
  }
  const remove = async (name: string) => {
    await removeTree(join(parent, name));
    if (dead.has(name)) await rm(join(parent, name) + LOCK_END, { force: true });
  };
  return await cleanUp({ kind: "programs", names: [...older, ...dead.keys()], remove }, tell);
}
