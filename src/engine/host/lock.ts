/**
 * Locks between processes, by flock(2) on files of the home. Node cannot call it, so flock(1) does it
 * on a descriptor that it inherits; the lock belongs to the open file, which this process keeps. The kernel releases it when this process ends, however that comes about.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { open, stat, type FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { anySignal } from "../../common/any-signal.ts";
import { SandboxError, toSandboxError } from "../../common/errors.ts";
import { ifThere } from "../../common/files.ts";
import { signalAfter } from "../../common/late-signal.ts";
import { PROGRAM_ENVIRONMENT } from "./find-program.ts";
import { killGroup, TIED } from "./run-program.ts";

/** What is made, or removed, by one process of a home at a time; each is a file of the home. */
export const LOCK_NAMES = [
  "base",
  "host",
  "daemon",
  "probe",
  "reclaim",
  "instance",
  "interpreter",
  "authority",
  "image",
  "service",
  "store",
  "volumes",
] as const;

/** An image has a lock of its own besides; the name ends with a part of a digest. */
export type LockName = (typeof LOCK_NAMES)[number] | `image-${string}`;

/** Who waits longer is told so: the holder may be stopped. */
const DEFAULT_TIMEOUT_MS = 60_000;

/** The first descriptor after the standard streams. */
const DESCRIPTOR = 3;
const TAKEN_STATUS = 3;
const EXCLUSIVE = "--exclusive";
const SHARED = "--shared";

export interface LockOptions {
  /** How long to wait for another holder; default 60 s. */
  readonly timeoutMs?: number | undefined;
  readonly signal?: AbortSignal | undefined;
  /** Whether others may hold it so at the same time; only `tryLock` then finds it taken. */
  readonly isShared?: boolean | undefined;
}

/**
 * Waits for a lock of the home and holds it until disposed.
 * @throws SandboxError unavailable when another process holds it for too long or when it cannot be
 * taken, canceled
 */
export async function holdLock(
  home: string,
  name: LockName,
  { timeoutMs = DEFAULT_TIMEOUT_MS, signal, isShared = false }: LockOptions = {},
): Promise<AsyncDisposable> {
  const limit = signalAfter(timeoutMs);
  const stop = signal === undefined ? limit : anySignal([limit, signal]);
  const lock = await takeLock(lockPath(home, name), [isShared ? SHARED : EXCLUSIVE], stop);
  if (lock !== undefined) return lock;
  if (signal?.aborted) throw new SandboxError("canceled", `no longer waiting for lock ${name}`);
  throw new SandboxError("unavailable", `another process holds the lock ${name}`, {
    hint: "repeat it; a process of this home that is stopped or hangs keeps the lock until it ends",
  });
}

/**
 * Does the work while it holds a lock of the home.
 * @throws SandboxError as `holdLock`.
 */
export async function withLock<T>(
  { home, name, ...options }: LockOptions & { readonly home: string; readonly name: LockName },
  work: () => Promise<T>,
): Promise<T> {
  const lock = await holdLock(home, name, options);
  try {
    return await work();
  } finally {
    await lock[Symbol.asyncDispose]();
  }
}

/** Takes a lock of the home that is free, or becomes so in that many seconds; undefined when it is held. */
export async function tryLock(
  home: string,
  name: LockName,
  waitSeconds = 0,
): Promise<AsyncDisposable | undefined> {
  const path = lockPath(home, name);
  if (waitSeconds === 0) return tryLockNow(path);
  // The program's own timer is a signal, of which the machine may allow none: `ulimit -i`.
  return takeLock(path, [EXCLUSIVE], signalAfter(waitSeconds * 1000));
}

/**
 * Takes the lock of any file, which is made; undefined when it is held, or when its holder removed the
 * file meanwhile. Only its holder may remove the file.
 */
export async function tryLockFile(path: string): Promise<AsyncDisposable | undefined> {
  const lock = await tryLockNow(path);
  if (lock === undefined || (await isAt(lock.file, path))) return lock;
  // The next process would lock another file of this name.
  await lock[Symbol.asyncDispose]();
  return undefined;
}

function tryLockNow(path: string): Promise<HeldLock | undefined> {
  return takeLock(path, [EXCLUSIVE, "--nonblock"], signalAfter(DEFAULT_TIMEOUT_MS));
}

/** Takes the lock of an open file or folder, which ends when it is closed; false when it is held. */
export async function tryLockOpen(
  file: FileHandle,
  { isShared = false }: Pick<LockOptions, "isShared"> = {},
): Promise<boolean> {
  const flags = [isShared ? SHARED : EXCLUSIVE, "--nonblock"];
  const status = await lockFile(file, flags, signalAfter(DEFAULT_TIMEOUT_MS));
  if (status === 0) return true;
  if (status === TAKEN_STATUS) return false;
  throw new SandboxError("unavailable", `lock: exit status ${status}`);
}

async function isAt(file: FileHandle, path: string): Promise<boolean> {
  const own = await file.stat();
  const there = await ifThere(stat(path));
  return there?.ino === own.ino && there.dev === own.dev;
}

/**
 * The file is removed only while no process can wait for it: a process that still waits for a removed one
 * would exclude none.
 */
function lockPath(home: string, name: LockName): string {
  return join(home, `${name}.lock`);
}

interface HeldLock extends AsyncDisposable {
  readonly file: FileHandle;
}

/** Undefined when it was stopped, or when the lock is taken and was not to be waited for. */
async function takeLock(
  path: string,
  flags: readonly string[],
  stop: AbortSignal,
): Promise<HeldLock | undefined> {
  const file = await open(path, "a+", 0o600).catch((error: unknown) => {
    throw toSandboxError(error, "lock");
  });
  let isHeld = false;
  try {
    const status = await lockFile(file, flags, stop);
    // A stop that came with the lock counts: no caller waits for it any more.
    isHeld = status === 0 && !stop.aborted;
    if (isHeld) return { file, [Symbol.asyncDispose]: () => file.close() };
    if (status === TAKEN_STATUS || stop.aborted) return undefined;
    throw new SandboxError("unavailable", `lock ${path}: exit status ${status}`);
  } finally {
    if (!isHeld) await file.close();
  }
}

/** Resolves with the exit status; null for a program that was killed. */
async function lockFile(
  file: FileHandle,
  flags: readonly string[],
  stop: AbortSignal,
): Promise<number | null> {
  if (stop.aborted) return null;
  const words = ["--conflict-exit-code", String(TAKEN_STATUS), ...flags];
  const [program, ...tied] = TIED;
  const child = spawn(program, [...tied, "flock", ...words, String(DESCRIPTOR)], {
    env: PROGRAM_ENVIRONMENT,
    stdio: ["ignore", "ignore", "ignore", file.fd],
    // A group of its own, as with every tool.
    detached: true,
  });
  const kill = () => killGroup(child.pid);
  stop.addEventListener("abort", kill, { once: true });
  try {
    await once(child, "exit");
    return child.exitCode;
  } catch (error) {
    throw toSandboxError(error, "lock");
  } finally {
    stop.removeEventListener("abort", kill);
  }
}
