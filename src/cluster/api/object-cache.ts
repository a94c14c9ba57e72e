/** Objects of one kind by name, with those who wait for changes. */

import { SandboxError } from "../../common/errors.ts";

/** Names of objects that are gone, so that an old reply does not bring one back. */
const MAX_GONE = 10_000;

export interface Named {
  readonly metadata: {
    readonly name: string;
    readonly uid: string;
    readonly resourceVersion: string;
  };
}

/** What is told of each change; undefined for what is gone. */
export type ChangeListener<T> = (name: string, item: T | undefined) => void;

export interface ObjectCache<T extends Named> {
  readonly items: ReadonlyMap<string, T>;
  /** Takes an object that a call returned, unless a newer one is known or it is gone. */
  apply(item: T): void;
  /**
   * Takes note that it is gone: at this version or, if none is named, the object that is known. Another
   * object may get its name later.
   */
  drop(name: string, version?: string): void;
  /** Takes these as all that there is, whatever their versions: those of before say nothing about them. */
  restart(found: readonly T[]): void;
  /** Returns what ends it. */
  listen(listener: ChangeListener<T>): () => void;
  /**
   * The first answer that is not undefined, now or after a change of this name.
   * @throws SandboxError canceled when the signal fires first, and what `find` throws.
   */
  until(
    name: string,
    find: (item: T | undefined) => string | undefined,
    signal: AbortSignal,
  ): Promise<string>;
}

interface Gone {
  readonly version: string | undefined;
  readonly uid: string | undefined;
}

export function createObjectCache<T extends Named>(): ObjectCache<T> {
  const items = new Map<string, T>();
  const gone = new Map<string, Gone>();
  const listeners = new Set<ChangeListener<T>>();

  function tell(name: string, item: T | undefined): void {
    for (const listener of listeners) listener(name, item);
  }

  function listen(listener: ChangeListener<T>): () => void {
    listeners.add(listener);
    return () => void listeners.delete(listener);
  }

  return {
    items,
    listen,
    apply(item) {
      const { name, resourceVersion } = item.metadata;
      const known = items.get(name);
      if (isOldReply(item.metadata, gone.get(name))) return;
      if (known !== undefined && !isNewer(resourceVersion, known.metadata.resourceVersion)) return;
      items.set(name, item);
      tell(name, item);
    },
    drop(name, version) {
      const known = items.get(name)?.metadata;
      if (known !== undefined && version !== undefined && isNewer(known.resourceVersion, version)) {
        return;
      }
      const before = gone.get(name);
      gone.set(name, {
        version: version ?? before?.version,
        // At a version it may have lost its labels alone, and get them back at a later one.
        uid: version === undefined ? (known?.uid ?? before?.uid) : undefined,
      });
      const [oldest] = gone.keys();
      if (gone.size > MAX_GONE && oldest !== undefined) gone.delete(oldest);
      if (items.delete(name)) tell(name, undefined);
    },
    restart(found) {
      gone.clear();
      for (const name of replaceAll(items, found)) tell(name, items.get(name));
    },
    async until(name, find, signal) {
      const { promise, resolve, reject } = Promise.withResolvers<string>();
      const look = (item: T | undefined) => {
        try {
          const answer = find(item);
          if (answer !== undefined) resolve(answer);
        } catch (error) {
          reject(error);
        }
      };
      const stop = listen((changed, item) => {
        if (changed === name) look(item);
      });
      const abort = () => reject(new SandboxError("canceled", `wait for ${name} was canceled`));
      signal.addEventListener("abort", abort, { once: true });
      if (signal.aborted) abort();
      else look(items.get(name));
      try {
        return await promise;
      } finally {
        stop();
        signal.removeEventListener("abort", abort);
      }
    },
  };
}

/** Whether an object of this version is an old reply about one that is gone. */
function isOldReply({ uid, resourceVersion }: Named["metadata"], known: Gone | undefined): boolean {
  if (known === undefined) return false;
  return (
    known.uid === uid || (known.version !== undefined && !isNewer(resourceVersion, known.version))
  );
}

/** Returns the names before and after. */
function replaceAll<T extends Named>(items: Map<string, T>, found: readonly T[]): Set<string> {
  const names = new Set(items.keys());
  items.clear();
  for (const item of found) items.set(item.metadata.name, item);
  return names.union(new Set(items.keys()));
}

/** Versions of one object rise; they are whole numbers of any length. */
export function isNewer(version: string, than: string): boolean {
  if (!/^[0-9]+$/.test(version) || !/^[0-9]+$/.test(than)) return version !== than;
  return BigInt(version) > BigInt(than);
}
