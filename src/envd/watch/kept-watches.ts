/**
 * Watches that are polled. A client that vanished never removes its own, so where a new one
 * has no place, those give way that were not polled for long, the longest idle first.
 */

import { SandboxError } from "../../common/errors.ts";
import { randomId } from "../../wire/address.ts";

/** A client that is still there polls more often. */
const IDLE_MS = 10 * 60_000;

export interface KeptWatches<T extends Disposable> {
  /** Returns its identifier. */
  add(watch: T): string;
  /** For its client. @throws SandboxError not_found */
  find(watcherId: string): T;
  /** @throws SandboxError not_found */
  remove(watcherId: string): void;
  /** Those that may be ended for a new one. */
  idle(): readonly T[];
  /** Ends the one that was not polled for the longest time; false where all were polled of late. */
  endIdlest(): boolean;
}

export function createKeptWatches<T extends Disposable>(
  now: () => number = () => performance.now(),
): KeptWatches<T> {
  /** Least recently polled first. */
  const kept = new Map<string, { readonly watch: T; readonly polledAtMs: number }>();

  function take(watcherId: string): T {
    const found = kept.get(watcherId);
    if (found === undefined) {
      throw new SandboxError("not_found", `watcher with id ${watcherId} not found`);
    }
    kept.delete(watcherId);
    return found.watch;
  }

  const isIdle = ({ polledAtMs }: { readonly polledAtMs: number }) => now() - polledAtMs >= IDLE_MS;

  function put(watcherId: string, watch: T): void {
    kept.set(watcherId, { watch, polledAtMs: now() });
  }

  return {
    add(watch) {
      const watcherId = `w${randomId()}`;
      put(watcherId, watch);
      return watcherId;
    },
    find(watcherId) {
      const watch = take(watcherId);
      put(watcherId, watch);
      return watch;
    },
    remove(watcherId) {
      take(watcherId)[Symbol.dispose]();
    },
    idle: () => [...kept.values()].filter((each) => isIdle(each)).map(({ watch }) => watch),
    endIdlest() {
      const [idlest] = kept;
      if (idlest === undefined) return false;
      const [watcherId, entry] = idlest;
      if (!isIdle(entry)) return false;
      take(watcherId)[Symbol.dispose]();
      return true;
    },
  };
}
