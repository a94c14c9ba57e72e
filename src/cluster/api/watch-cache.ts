/**
 * The objects of one kind that a selector finds, kept up to date by list and watch. Answers go on
 * from what is known while the API server is away.
 */

import type { IncomingMessage } from "node:http";
import { setTimeout as delay } from "node:timers/promises";
import { anySignal } from "../../common/any-signal.ts";
import { createBackoff } from "../../common/backoff.ts";
import { createByteBuffer } from "../../common/bytes.ts";
import { hasErrorCode, SandboxError } from "../../common/errors.ts";
import { tryParseJson } from "../../common/json.ts";
import type { Logger } from "../../common/log.ts";
import { z } from "../../common/schema.ts";
import type { ClusterApi } from "./api.ts";
import { createLastingFault } from "./lasting-fault.ts";
import { listObjects } from "./list-pages.ts";
import { createObjectCache, isNewer, type Named, type ObjectCache } from "./object-cache.ts";
import { createWatchSilence, readInSilence, type WatchSilence } from "./watch-silence.ts";

/** The API server ends a watch after this; the next one goes on where it stood. */
const WATCH_SECONDS = 240;
const FIRST_RETRY_MS = 50;
const MAX_RETRY_MS = 2_000;
/** Objects of ours are far smaller than the largest that Kubernetes stores. */
const MAX_LINE_BYTES = 4 * 1024 * 1024;
const NEWLINE = 10;

export interface CacheOptions<T extends Named> {
  readonly api: ClusterApi;
  readonly log: Logger;
  /** `pods`, `configmaps` or `leases`. */
  readonly kind: string;
  readonly selector: string;
  readonly schema: z.ZodType<T>;
}

export interface WatchCache<T extends Named> extends ObjectCache<T>, AsyncDisposable {
  /** Resolves after the first list. */
  readonly filled: Promise<void>;
}

const eventSchema = z.object({
  type: z.enum(["ADDED", "MODIFIED", "DELETED", "BOOKMARK", "ERROR"]),
  object: z.unknown(),
});

const bookmarkSchema = z.object({ metadata: z.object({ resourceVersion: z.string() }) });

/** Begins to follow; it retries for ever. */
export function startWatchCache<T extends Named>(options: CacheOptions<T>): WatchCache<T> {
  const { api, log, kind, schema } = options;
  const cache = createObjectCache<T>();
  const end = new AbortController();
  const first = Promise.withResolvers<void>();
  const silence = createWatchSilence();

  async function run(): Promise<void> {
    const backoff = createBackoff(FIRST_RETRY_MS, MAX_RETRY_MS);
    const fault = createLastingFault({ log, fields: { op: "cluster.watch", subject: kind } });
    let version: string | undefined;
    /** The version of the last list or event. */
    let reached: string | undefined;
    let isBroken = false;
    while (!end.signal.aborted) {
      try {
        // A watch from a version that its state does not have yet would be silent.
        if (isBroken && (await isOlder(options, version, end.signal))) version = undefined;
        isBroken = false;
        if (version === undefined) {
          version = await list(options, { cache, reached }, end.signal);
          reached = version;
          first.resolve();
        }
        const before: string = version;
        const onOpen = () => fault.clear();
        version = await follow(options, { cache, from: before, onOpen, silence }, end.signal);
        reached = version ?? reached;
        // A server that ends each watch with a fault is asked for lists less and less often.
        if (version !== undefined && version !== before) backoff.reset();
      } catch (error) {
        if (end.signal.aborted) return;
        isBroken = true;
        // An expired version is listed anew; any other fault may have lost events too.
        version = hasErrorCode(error, "unavailable") ? version : undefined;
        fault.note(error);
      }
      await pause(backoff.next(), end.signal);
    }
  }

  const running = run();
  return {
    ...cache,
    filled: first.promise,
    async until(name, find, signal) {
      const over = new AbortController();
      const reading = { api, cache, silence, path: `${kind}/${name}`, name, schema };
      // It throws nothing.
      void readInSilence(reading, over.signal);
      try {
        return await cache.until(name, find, signal);
      } finally {
        over.abort();
      }
    },
    async [Symbol.asyncDispose]() {
      end.abort();
      await running;
    },
  };
}

/** Whether the state of the API server is older than a version, as after a restore from a backup. */
async function isOlder<T extends Named>(
  { api, kind, selector }: CacheOptions<T>,
  version: string | undefined,
  signal: AbortSignal,
): Promise<boolean> {
  if (version === undefined) return false;
  const query = { labelSelector: selector, limit: "1" };
  const reply = await api.call({ method: "GET", path: kind, query, signal });
  return isNewer(version, bookmarkSchema.parse(reply).metadata.resourceVersion);
}

/** Returns the version from which a watch goes on. */
async function list<T extends Named>(
  { api, kind, selector, schema }: CacheOptions<T>,
  { cache, reached }: { readonly cache: ObjectCache<T>; readonly reached: string | undefined },
  signal: AbortSignal,
): Promise<string> {
  const { items, version } = await listObjects(api, { kind, selector, signal });
  const listed = items.map((raw) => schema.parse(raw));
  if (reached !== undefined && isNewer(reached, version)) {
    cache.restart(listed);
    return version;
  }
  const found = new Set<string>();
  for (const item of listed) {
    found.add(item.metadata.name);
    cache.apply(item);
  }
  for (const [name, { metadata }] of cache.items) {
    // What was made by a call of our own after the list is not in it.
    if (!found.has(name) && !isNewer(metadata.resourceVersion, version)) {
      cache.drop(name, version);
    }
  }
  return version;
}

interface Following<T extends Named> {
  readonly cache: ObjectCache<T>;
  readonly from: string;
  /** Called when the API server has accepted the watch. */
  readonly onOpen: () => void;
  readonly silence: WatchSilence;
}

/** Follows until the connection ends; returns the version reached, or undefined for a new list. */
async function follow<T extends Named>(
  { api, kind, selector, schema }: CacheOptions<T>,
  { cache, from, onOpen, silence }: Following<T>,
  signal: AbortSignal,
): Promise<string | undefined> {
  const query = {
    labelSelector: selector,
    resourceVersion: from,
    allowWatchBookmarks: "true",
    timeoutSeconds: String(WATCH_SECONDS),
  };
  const bounded = anySignal([signal, silence.begin()]);
  const body = await api.watch({ path: kind, query }, bounded);
  onOpen();
  silence.end();
  let version = from;
  for await (const line of linesOf(body)) {
    silence.end();
    const event = eventSchema.parse(tryParseJson(line));
    if (event.type === "ERROR") return undefined;
    if (event.type === "BOOKMARK") {
      version = bookmarkSchema.parse(event.object).metadata.resourceVersion;
      continue;
    }
    const item = schema.parse(event.object);
    const { name, resourceVersion } = item.metadata;
    if (event.type === "DELETED") cache.drop(name, resourceVersion);
    else cache.apply(item);
    version = resourceVersion;
  }
  return version;
}

async function* linesOf(body: IncomingMessage): AsyncGenerator<string> {
  const line = createByteBuffer();
  for await (const part of body) {
    const chunk = Buffer.from(part);
    let start = 0;
    for (let at = chunk.indexOf(NEWLINE); at !== -1; at = chunk.indexOf(NEWLINE, start)) {
      line.add(chunk.subarray(start, at));
      const text = line.take().toString("utf8");
      if (text !== "") yield text;
      start = at + 1;
    }
    line.add(chunk.subarray(start));
    if (line.length > MAX_LINE_BYTES) throw new SandboxError("internal", "watch line is too long");
  }
}

/** Ends early with the signal, which lasts as long as the cache: nothing stays at it. */
async function pause(ms: number, signal: AbortSignal): Promise<void> {
  try {
    await delay(ms, undefined, { signal });
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
