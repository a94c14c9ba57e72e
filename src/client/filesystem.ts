/** The filesystem service of one sandbox, without the types of the wire. */

import { timestampDate } from "@bufbuild/protobuf/wkt";
import { createClient } from "@connectrpc/connect";
import type { Transport } from "@connectrpc/connect";
import { unexpectedReply } from "../common/unexpected-reply.ts";
import { quoteName } from "../common/untrusted-text.ts";
import {
  EventType,
  FileType,
  Filesystem,
  type EntryInfo,
  type FilesystemEvent,
} from "../gen/filesystem/filesystem_pb.ts";
import type { AccessSource, CallOptions } from "./access.ts";
import { toPath, toWord } from "./paths.ts";
import { callUnary } from "./unary.ts";

export interface Entry {
  readonly name: string;
  readonly path: string;
  /** That of a link's target; `symlink`: a link that leads nowhere; `other`: a socket, pipe or device. */
  readonly type: "file" | "directory" | "symlink" | "other";
  readonly sizeBytes: number;
  /** Permission bits, 0 to 0o777. */
  readonly mode: number;
  readonly permissions: string;
  readonly owner: string;
  readonly group: string;
  readonly modifiedAt: Date | undefined;
  /** The end of a chain of links. */
  readonly symlinkTarget: string | undefined;
}

export interface WatchEvent {
  /** Relative to the watched directory. */
  readonly name: string;
  readonly type: "create" | "write" | "remove" | "rename" | "chmod" | "other";
}

/** Paths are relative to the user's home; errors are SandboxError with the daemon's code. */
export interface FilesystemClient {
  stat(path: string, options: CallOptions): Promise<Entry>;
  listDir(path: string, depth: number, options: CallOptions): Promise<readonly Entry[]>;
  makeDir(path: string, options: CallOptions): Promise<Entry>;
  move(source: string, target: string, options: CallOptions): Promise<Entry>;
  remove(path: string, options: CallOptions): Promise<void>;
  /** The identifier of a watcher, which queues events until it is removed. */
  createWatcher(path: string, isRecursive: boolean, options: CallOptions): Promise<string>;
  /** Takes all queued events. */
  takeWatcherEvents(watcherId: string, signal: AbortSignal): Promise<readonly WatchEvent[]>;
  removeWatcher(watcherId: string, signal: AbortSignal): Promise<void>;
}

/** No other one can be given back by a caller. */
const WATCHER_ID = /^[a-zA-Z0-9_-]{1,64}$/;

/** The filesystem service behind a transport. */
export function createFilesystem(transport: Transport, source: AccessSource): FilesystemClient {
  const client = createClient(Filesystem, transport);
  const repeatable = { source, isIdempotent: true };
  const once = { source, isIdempotent: false };

  return {
    async stat(path, options) {
      const subject = `stat ${quoteName(path)}`;
      const work = { ...repeatable, subject, options };
      const reply = await callUnary(work, (call) => client.stat({ path }, call));
      return toEntry(requireEntry(reply, subject));
    },

    async listDir(path, depth, options) {
      const work = { ...repeatable, subject: `list ${quoteName(path)}`, options };
      const reply = await callUnary(work, (call) => client.listDir({ path, depth }, call));
      return reply.entries.map((entry) => toEntry(entry));
    },

    async makeDir(path, options) {
      const subject = `make directory ${quoteName(path)}`;
      const work = { ...once, subject, options };
      const reply = await callUnary(work, (call) => client.makeDir({ path }, call));
      return toEntry(requireEntry(reply, subject));
    },

    async move(source_, destination, options) {
      const subject = `move ${quoteName(source_)} to ${quoteName(destination)}`;
      const work = { ...once, subject, options };
      const call = { source: source_, destination };
      const reply = await callUnary(work, (settings) => client.move(call, settings));
      return toEntry(requireEntry(reply, subject));
    },

    async remove(path, options) {
      const work = { ...repeatable, subject: `remove ${quoteName(path)}`, options };
      await callUnary(work, (call) => client.remove({ path }, call));
    },

    async createWatcher(path, isRecursive, options) {
      const subject = `watch ${quoteName(path)}`;
      const work = { ...once, subject, options };
      const request = { path, recursive: isRecursive };
      const { watcherId } = await callUnary(work, (call) => client.createWatcher(request, call));
      if (WATCHER_ID.test(watcherId)) return watcherId;
      throw unexpectedReply("it has no identifier of a watcher", { subject });
    },

    async takeWatcherEvents(watcherId, signal) {
      const work = { ...once, subject: `events of watcher ${watcherId}`, options: { signal } };
      const reply = await callUnary(work, (call) => client.getWatcherEvents({ watcherId }, call));
      return reply.events.map((event) => toWatchEvent(event));
    },

    async removeWatcher(watcherId, signal) {
      const work = { ...repeatable, subject: `remove watcher ${watcherId}`, options: { signal } };
      await callUnary(work, (call) => client.removeWatcher({ watcherId }, call));
    },
  };
}

const ENTRY_TYPES: Readonly<Record<number, Entry["type"]>> = {
  [FileType.FILE]: "file",
  [FileType.DIRECTORY]: "directory",
  [FileType.SYMLINK]: "symlink",
};

const EVENT_TYPES: Readonly<Record<number, WatchEvent["type"]>> = {
  [EventType.CREATE]: "create",
  [EventType.WRITE]: "write",
  [EventType.REMOVE]: "remove",
  [EventType.RENAME]: "rename",
  [EventType.CHMOD]: "chmod",
};

/** @throws SandboxError internal for a reply that tells nothing, not even that the path exists. */
function requireEntry(
  reply: { readonly entry?: EntryInfo | undefined },
  subject: string,
): EntryInfo {
  const { entry } = reply;
  if (entry?.path) return entry;
  throw unexpectedReply("it has no entry", { subject });
}

function toEntry(entry: EntryInfo): Entry {
  const { name, mode, size, symlinkTarget: target, modifiedTime } = entry;
  const type = ENTRY_TYPES[entry.type] ?? "other";
  // Of a broken or circular link the service gives the link itself as the target.
  const isBroken = type === "other" && target !== undefined && target === entry.path;
  return {
    name,
    path: toPath(entry.path),
    type: isBroken ? "symlink" : type,
    sizeBytes: Number(size),
    mode,
    permissions: toWord(entry.permissions),
    owner: toWord(entry.owner),
    group: toWord(entry.group),
    modifiedAt: modifiedTime === undefined ? undefined : timestampDate(modifiedTime),
    symlinkTarget: target === undefined || isBroken ? undefined : toPath(target),
  };
}

function toWatchEvent(event: FilesystemEvent): WatchEvent {
  return { name: toPath(event.name), type: EVENT_TYPES[event.type] ?? "other" };
}
