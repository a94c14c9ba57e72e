/**
 * The locks under which images are added. A process that adds, reads or writes one keeps clean-ups
 * off by holding the lock `image` together with others; a clean-up takes it alone. Two that fetch the
 * same image from the same place, or unpack the same one, exclude each other by a lock for that
 * alone, so no process waits for the registry of another.
 */

import { mkdir, readdir, rm } from "node:fs/promises";
import { join } from "node:path";
import { sha256Hex } from "../common/hash.ts";
import { holdLock, tryLock, withLock } from "../engine/host/lock.ts";
import { LAYERS } from "../engine/storage/layers.ts";
import type { PullOptions } from "./images.ts";

/** Another process of this home may be fetching a large image. */
const LOCK_TIMEOUT_MS = 60 * 60_000;
const DIGEST_CHARACTERS = 32;
const FILE_PATTERN = /^image-[0-9a-f]{32}\.lock$/;

type Holder = Pick<PullOptions, "home" | "signal">;

/** Keeps clean-ups of images off until disposed. */
export async function holdImages({ home, signal }: Holder): Promise<AsyncDisposable> {
  await mkdir(join(home, LAYERS), { recursive: true, mode: 0o700 });
  return holdLock(home, "image", { timeoutMs: LOCK_TIMEOUT_MS, signal, isShared: true });
}

/** Does the work while clean-ups of images are kept off. */
export async function whileImagesStay<T>(options: Holder, work: () => Promise<T>): Promise<T> {
  const hold = await holdImages(options);
  try {
    return await work();
  } finally {
    await hold[Symbol.asyncDispose]();
    // The last one removes the files of locks: a request chooses their names. What fails here is done
    // by the next one, and must not fail the work.
    await whileNoImageIsUsed(options.home, async () => undefined).catch(() => undefined);
  }
}

/** Does the work while no other process of this home works on the same; called in `whileImagesStay`. */
export async function withImageLock<T>(
  { home, signal }: Holder,
  what: string,
  work: () => Promise<T>,
): Promise<T> {
  const digest = sha256Hex(what).slice(0, DIGEST_CHARACTERS);
  return withLock({ home, name: `image-${digest}`, timeoutMs: LOCK_TIMEOUT_MS, signal }, work);
}

/**
 * Does the work of a clean-up while no process adds, reads or writes an image; undefined, and no
 * work done, while one does. Files of locks go too: no process can wait for one.
 */
export async function whileNoImageIsUsed<T>(
  home: string,
  work: () => Promise<T>,
): Promise<T | undefined> {
  await using lock = await tryLock(home, "image");
  if (lock === undefined) return undefined;
  for (const name of await readdir(home)) {
    if (FILE_PATTERN.test(name)) await rm(join(home, name), { force: true });
  }
  return await work();
}
