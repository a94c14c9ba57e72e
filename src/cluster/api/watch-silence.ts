/** What is done about a watch that tells nothing: a proxy may keep it open without its API server. */

import { setTimeout as delay } from "node:timers/promises";
import type { z } from "../../common/schema.ts";
import type { ClusterApi } from "./api.ts";
import type { Named, ObjectCache } from "./object-cache.ts";
import { readObject } from "./object-calls.ts";

/** An API server sends a bookmark each minute. */
const SILENT_WATCH_MS = 90_000;
/** Who waits for an object reads it after each such time in which its watch told nothing. */
const SILENT_WAIT_MS = 3_000;

export interface WatchSilence {
  /** Of a watch that begins; it fires when that is to be left for a new list. */
  begin(): AbortSignal;
  /** The watch was accepted, or told something. */
  end(): void;
  /** The watch has not told what there is. */
  leave(): void;
  isLong(): boolean;
}

export function createWatchSilence(): WatchSilence {
  let left = new AbortController();
  let sinceMs = performance.now();
  const leave = () => left.abort();
  const timer = setTimeout(leave, SILENT_WATCH_MS).unref();
  const end = () => {
    sinceMs = performance.now();
    timer.refresh();
  };
  return {
    begin() {
      left = new AbortController();
      end();
      return left.signal;
    },
    end,
    leave,
    isLong: () => performance.now() - sinceMs >= SILENT_WAIT_MS,
  };
}

interface Reading<T extends Named> {
  readonly api: ClusterApi;
  readonly cache: ObjectCache<T>;
  readonly silence: WatchSilence;
  /** Of the object, such as `pods/NAME`. */
  readonly path: string;
  readonly name: string;
  readonly schema: z.ZodType<T>;
}

/** Until the signal fires, for one who waits for an object. It throws nothing: the watch has its own faults. */
export async function readInSilence<T extends Named>(
  reading: Reading<T>,
  signal: AbortSignal,
): Promise<void> {
  const { api, cache, silence, path, name, schema } = reading;
  while (!signal.aborted) {
    try {
      await delay(SILENT_WAIT_MS, undefined, { signal, ref: false });
      if (!silence.isLong()) continue;
      const known = cache.items.get(name);
      const found = await readObject(api, { path, signal }, schema);
      // Something else may have told of it meanwhile.
      if (cache.items.get(name) !== known) continue;
      if (found === undefined) cache.drop(name);
      else cache.apply(found);
      if (cache.items.get(name) !== known) silence.leave();
    } catch {
      // The API server may be away.
    }
  }
}
