/** Opening watches for the two forms of the wire, and keeping those that are polled. */

import type { Stats } from "node:fs";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { causeCode, errorText, hasErrorCode, isCode, SandboxError } from "../../common/errors.ts";
import { toWirePath } from "../../common/file-names.ts";
import { EventType, type FilesystemEventSchema } from "../../gen/filesystem/filesystem_pb.ts";
import { errnoText, fileErrorText } from "../errno.ts";
import { stat, statfs } from "../file-system.ts";
import { describeEntry, type EntrySource } from "../filesystem/entry.ts";
import type { DaemonLog } from "../log.ts";
import { tidyPath } from "../parent-path.ts";
import { joinPath } from "../path.ts";
import { EventQueue } from "../queue.ts";
import type { Inotify } from "./inotify.ts";
import { createKeptWatches, type KeptWatches } from "./kept-watches.ts";
import { TreeWatch } from "./tree-watch.ts";
import { WatchBacklog } from "./watch-backlog.ts";
import {
  createWatchBudget,
  type SharedWatchBudget,
  type WatchedKind,
  type WatchShare,
} from "./watch-budget.ts";

export type FileEvent = MessageInitShape<typeof FilesystemEventSchema>;

/** What both forms of a watch request carry. */
export interface WatchRequest {
  /** Absolute. */
  readonly path: string;
  readonly recursive: boolean;
  readonly includeEntry: boolean;
  readonly allowNetworkMounts: boolean;
}

/** A running watch and the events that no client took yet; disposing of it, even twice, ends it. */
export interface FileWatch extends Disposable {
  readonly events: EventQueue<FileEvent>;
  /** What it holds of what all watches share. */
  readonly share: WatchShare;
}

export interface WatcherRegistry {
  /** @throws SandboxError not_found, invalid_argument, failed_precondition, resource_exhausted, internal */
  open(request: WatchRequest): Promise<FileWatch>;
  /** Keeps a watch until it is removed; returns its identifier. */
  keep(watch: FileWatch): string;
  /** @throws SandboxError not_found */
  find(watcherId: string): FileWatch;
  /** @throws SandboxError not_found */
  remove(watcherId: string): void;
}

/** Watches at one time, of both forms; each costs at least one watch of the kernel. */
const MAX_WATCHES = 256;
const OVERFLOW = "watch: the kernel dropped events, looking at the whole tree";
/** What an event costs in the queue beside its texts, and what its entry adds. */
const EVENT_BYTES = 200;
const ENTRY_BYTES = 800;
/** Of a character in memory; in a reply it may be three times as many. */
const CHARACTER_BYTES = 2;

const NETWORK_FILE_SYSTEMS: ReadonlySet<number> = new Set([
  0x6969, 0xff534d42, 0x517b, 0xfe534d42, 0x65735546,
]);

/** Events after which the file is still there. */
const WITH_ENTRY: ReadonlySet<EventType> = new Set([
  EventType.CREATE,
  EventType.WRITE,
  EventType.CHMOD,
]);

export interface WatchSource extends EntrySource {
  readonly inotify: Inotify;
  readonly log: Pick<DaemonLog, "write">;
  /** Milliseconds of a clock that is never set back. */
  readonly now?: () => number;
}

/** The registry of a daemon; without watches. */
export function createWatcherRegistry(source: WatchSource): WatcherRegistry {
  const budget = createWatchBudget();
  const backlog = new WatchBacklog<FileEvent>();
  const kept = createKeptWatches<FileWatch>(source.now);
  let open = 0;
  const startInPlace = createPlaceMaker(budget, kept);

  async function start(request: WatchRequest, share: WatchShare): Promise<FileWatch> {
    const folder = await tidyPath(request.path);
    const events = new EventQueue<FileEvent>(() => backlog.settle(events));
    const tree = new TreeWatch({
      root: request.path,
      isRecursive: request.recursive,
      budget: share,
      inotify: source.inotify,
      onOverflow: () => source.log.write("warn", OVERFLOW, { path: request.path }),
      async onEvent(name, type) {
        const event = await toEvent({ name, type }, { ...request, path: folder }, source);
        events.push(event, bytesOf(event));
        backlog.settle(events);
      },
      onFailure(error) {
        events.fail(error);
        backlog.settle(events);
      },
    });
    backlog.open(events, () => tree[Symbol.dispose]());
    const close = () => {
      tree[Symbol.dispose]();
      events.end();
      backlog.close(events);
    };
    try {
      await tree.arm();
      makePlace(budget, kept);
    } catch (error) {
      close();
      throw armFault(request.path, error);
    }
    return createFileWatch({ events, share }, () => {
      close();
      open -= 1;
    });
  }

  return {
    async open(request) {
      await requireWatchable(request);
      if (open >= MAX_WATCHES && !kept.endIdlest()) {
        throw new SandboxError("resource_exhausted", `more than ${MAX_WATCHES} watches`);
      }
      open += 1;
      try {
        return await startInPlace((share) => start(request, share));
      } catch (error) {
        open -= 1;
        throw error;
      }
    },
    keep: (watch) => kept.add(watch),
    find: (watcherId) => kept.find(watcherId),
    remove: (watcherId) => kept.remove(watcherId),
  };
}

/** Starts watches; what all share may be held by some whose clients vanished. */
function createPlaceMaker(budget: SharedWatchBudget, kept: KeptWatches<FileWatch>) {
  let arming = 0;
  // While one is armed beyond the limits, those that run may grow all the same.
  const newShare = () => budget.share((kind) => (arming > 0 ? heldByIdle(kept, kind) : 0));
  return async (start: (share: WatchShare) => Promise<FileWatch>): Promise<FileWatch> => {
    const share = newShare();
    arming += 1;
    try {
      return await start(share);
    } catch (error) {
      // Other sandboxes may hold what the kernel has: only a second attempt shows what helps.
      const isFull = hasErrorCode(error, "resource_exhausted");
      if (!isFull || share.isRefused || !kept.endIdlest()) throw error;
      while (kept.endIdlest());
      return await start(newShare());
    } finally {
      arming -= 1;
    }
  };
}

function heldByIdle(kept: KeptWatches<FileWatch>, kind: WatchedKind): number {
  return kept.idle().reduce((sum, { share }) => sum + share.held(kind), 0);
}

/** Ends idle watches as far as a new one needs. @throws SandboxError resource_exhausted */
function makePlace(budget: SharedWatchBudget, kept: KeptWatches<FileWatch>): void {
  while (budget.excess() !== undefined && kept.endIdlest());
  const error = budget.excess();
  if (error !== undefined) throw error;
}

function createFileWatch(parts: Omit<FileWatch, keyof Disposable>, end: () => void): FileWatch {
  let isOpen = true;
  return {
    ...parts,
    [Symbol.dispose]() {
      if (isOpen) end();
      isOpen = false;
    },
  };
}

async function requireWatchable(request: WatchRequest): Promise<void> {
  const { path } = request;
  let stats: Stats;
  let fileSystem: number;
  try {
    stats = await stat(path);
    fileSystem = request.allowNetworkMounts ? 0 : (await statfs(path)).type;
  } catch (error) {
    const text = fileErrorText("stat", path, error);
    if (isCode(error, "ENOENT")) {
      throw new SandboxError("not_found", `path ${path} not found: ${text}`, { cause: error });
    }
    const message = `error statting path ${path}: ${text}`;
    throw new SandboxError("internal", message, { cause: error });
  }
  if (!stats.isDirectory()) {
    throw new SandboxError("invalid_argument", `path ${path} not a directory: it is a file`);
  }
  if (NETWORK_FILE_SYSTEMS.has(fileSystem)) {
    const message = `cannot watch path on network filesystem: ${path}`;
    throw new SandboxError("invalid_argument", message);
  }
}

function armFault(path: string, error: unknown): SandboxError {
  const text = error instanceof SandboxError ? errorText(error) : errnoText(error);
  const code = error instanceof SandboxError ? error.code : "internal";
  const message = `error adding path ${path} to watcher: ${text}`;
  return new SandboxError(code, message, { cause: error });
}

function bytesOf({ name = "", entry }: FileEvent): number {
  if (entry === undefined) return EVENT_BYTES + CHARACTER_BYTES * name.length;
  const { path = "", symlinkTarget = "", metadata = {} } = entry;
  const texts = [name, name, path, symlinkTarget, ...Object.entries(metadata).flat()];
  const characters = texts.reduce((sum, text) => sum + text.length, 0);
  return EVENT_BYTES + ENTRY_BYTES + CHARACTER_BYTES * characters;
}

async function toEvent(
  { name, type }: { readonly name: string; readonly type: EventType },
  request: WatchRequest,
  source: EntrySource,
): Promise<FileEvent> {
  const event = { name: toWirePath(name), type };
  if (!request.includeEntry || !WITH_ENTRY.has(event.type)) return event;
  try {
    const path = joinPath(request.path, name);
    return { ...event, entry: await describeEntry(path, source) };
  } catch (error) {
    if (!(error instanceof SandboxError) && causeCode(error) === undefined) throw error;
    // The file is gone again: the event stays true, its entry has nothing to show.
    return event;
  }
}
