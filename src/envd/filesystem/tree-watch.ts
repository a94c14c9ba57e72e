/**
 * Watches a folder, and on request everything below it, with one plain watch per folder. A new
 * folder is watched first and listed then, so that nothing falls between the two; what the listing
 * finds is reported as created. Node's own recursive mode re-reads whole folders per event and can
 * be made to stall the daemon, so it is not used.
 */

import { watch, type FSWatcher } from "node:fs";
import { lstat, opendir } from "node:fs/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import { SandboxError, causeCode } from "../../common/errors.ts";
import { EventType } from "../../gen/filesystem/filesystem_pb.ts";
import { baseName, joinPath } from "../path.ts";
import {
  inferChange,
  inferRename,
  isRewritten,
  isSameObject,
  toNewcomer,
  toSeen,
  type Seen,
} from "./infer.ts";
import { RawEvents, type RawEvent } from "./raw-events.ts";
import type { WatchBudget } from "./watch-budget.ts";

export interface TreeWatchOptions {
  /** Absolute path of an existing folder. */
  readonly root: string;
  readonly isRecursive: boolean;
  readonly budget: WatchBudget;
  /** Called in order, each call awaited; names are relative to the root. */
  onEvent(name: string, type: EventType): Promise<void>;
  /** The watch has ended for this reason; nothing follows. */
  onFailure(error: SandboxError): void;
}

interface WatchedFolder {
  readonly watcher: FSWatcher;
  readonly known: Map<string, Seen>;
}

/** So many files are looked at together. */
const BATCH = 64;
/** A burst of this many may have overflowed the kernel's own queue, which nobody reports. */
const BURST = 8_192;
/** A folder may be gone, replaced or closed to us by the time we come to it. */
const SKIPPED: ReadonlySet<string> = new Set(["ENOENT", "ENOTDIR", "EACCES", "EPERM", "ELOOP"]);
/** What the kernel answers when a user has all the watches, or watchers, that one may have. */
const EXHAUSTED: ReadonlySet<string> = new Set(["ENOSPC", "EMFILE", "ENFILE", "ENOMEM"]);

/** A running watch; disposing of it ends every watch of the kernel that it holds. */
export class TreeWatch implements Disposable {
  readonly #options: TreeWatchOptions;
  readonly #folders = new Map<string, WatchedFolder>();
  readonly #raw: RawEvents;
  /** Folders that left one place of the tree and wait to be found at another. */
  #moved: { readonly seen: Seen; readonly known: Map<string, Map<string, Seen>> } | undefined;
  /** Events wait until every watch is armed: before that, nothing is known to compare with. */
  #isWorking = true;
  #isClosed = false;

  constructor(options: TreeWatchOptions) {
    this.#options = options;
    this.#raw = new RawEvents(options.budget);
  }

  /** Arms every watch without reporting what is there. @throws SandboxError, or a system error */
  async arm(): Promise<void> {
    await this.#addFolder("", { isReported: false, isRoot: true });
    this.#isWorking = false;
    await this.#work();
  }

  [Symbol.dispose](): void {
    this.#isClosed = true;
    this.#raw.clear();
    for (const folder of this.#folders.keys()) this.#dropFolder(folder);
  }

  #absolute(folder: string, name = ""): string {
    return joinPath(this.#options.root, joinPath(folder, name));
  }

  #onRaw(event: RawEvent): void {
    if (this.#isClosed) return;
    try {
      this.#raw.push(event);
    } catch (error) {
      this.#fail(toFailure(error));
      return;
    }
    // It catches what it throws and ends the watch then.
    void this.#work();
  }

  /** Works off what waits; failures end the watch, so that the caller need not look. */
  async #work(): Promise<void> {
    if (this.#isWorking) return;
    this.#isWorking = true;
    try {
      while (this.#raw.length > 0 && !this.#isClosed) {
        // Events that belong together are delivered one by one in the same turn.
        await nextTurn();
        await this.#workOff(this.#raw.takeAll());
        if (this.#raw.length === 0) await this.#afterBurst();
      }
    } catch (error) {
      this.#fail(toFailure(error));
    } finally {
      this.#isWorking = false;
    }
  }

  #fail(error: SandboxError): void {
    if (this.#isClosed) return;
    this[Symbol.dispose]();
    this.#options.onFailure(error);
  }

  async #workOff(events: readonly RawEvent[]): Promise<void> {
    for (let start = 0; start < events.length && !this.#isClosed; start += BATCH) {
      const batch = events.slice(start, start + BATCH);
      const looks = await Promise.all(batch.map(async (event) => this.#look(event)));
      for (const [index, event] of batch.entries()) {
        const next = batch[index + 1] ?? events[start + BATCH] ?? this.#raw.first;
        await this.#handle(event, { now: looks[index], next });
      }
    }
  }

  async #look(event: RawEvent): Promise<Seen | undefined> {
    try {
      return toSeen(await lstat(this.#absolute(event.folder, event.name)));
    } catch (error) {
      if (causeCode(error) === undefined) throw error;
      return undefined;
    }
  }

  async #handle(
    event: RawEvent,
    view: { readonly now: Seen | undefined; readonly next: RawEvent | undefined },
  ): Promise<void> {
    const isRepeated = this.#raw.settle(event);
    const folder = this.#folders.get(event.folder);
    if (folder === undefined || this.#isClosed) return;
    const known = folder.known.get(event.name);
    const { now } = view;
    if (known === undefined && now === undefined && event.name === this.#nameOf(event.folder)) {
      await this.#handleSelf(event, isRepeated);
      return;
    }
    const { events, seen } =
      event.kind === "rename"
        ? inferRename(known, now, isRepeated)
        : inferChange(known, now, Date.now());
    this.#remember(folder, event.name, seen);
    for (const type of events) {
      if (type === EventType.REMOVE) await this.#handleGone(event, known, view.next);
      else await this.#emit(event, type);
      if (type === EventType.CREATE && seen?.isDirectory) await this.#enter(event, seen);
    }
  }

  /** A folder's news about itself carry its own name; only the root's are not told by a parent. */
  async #handleSelf(event: RawEvent, isRepeated: boolean): Promise<void> {
    if (event.folder !== "" || event.kind === "change") return;
    const isThere = (await this.#look({ ...event, name: "" })) !== undefined;
    if (isThere) return;
    // The kernel says twice that a folder was deleted (gone, and watch removed), moved only once.
    await this.#options.onEvent(".", isRepeated ? EventType.REMOVE : EventType.RENAME);
    this[Symbol.dispose]();
  }

  async #handleGone(
    event: RawEvent,
    known: Seen | undefined,
    next: RawEvent | undefined,
  ): Promise<void> {
    const isMoved = known !== undefined && (await this.#reappearsAt(known, next));
    await this.#emit(event, isMoved ? EventType.RENAME : EventType.REMOVE);
    if (!known?.isDirectory) return;
    const left = this.#dropTree(joinPath(event.folder, event.name));
    if (isMoved) this.#moved = { seen: known, known: left };
  }

  /** The kernel tells both halves of a move next to each other. */
  async #reappearsAt(seen: Seen, next: RawEvent | undefined): Promise<boolean> {
    if (next === undefined || next.kind !== "rename") return false;
    const before = this.#folders.get(next.folder)?.known.get(next.name);
    if (before !== undefined && isSameObject(before, seen)) return false;
    const now = await this.#look(next);
    return now !== undefined && isSameObject(now, seen);
  }

  async #enter(event: RawEvent, seen: Seen): Promise<void> {
    if (!this.#options.isRecursive) return;
    const moved = this.#moved;
    this.#moved = undefined;
    const isMoved = moved !== undefined && isSameObject(moved.seen, seen);
    const folder = joinPath(event.folder, event.name);
    await this.#addFolder(folder, {
      isReported: true,
      ...(isMoved && { remembered: moved.known }),
    });
  }

  async #emit(event: RawEvent, type: EventType): Promise<void> {
    await this.#options.onEvent(joinPath(event.folder, event.name), type);
  }

  #remember(folder: WatchedFolder, name: string, seen: Seen | undefined): void {
    const isKnown = folder.known.has(name);
    if (seen !== undefined) {
      if (!isKnown) this.#options.budget.reserve("entries");
      folder.known.set(name, seen);
    } else if (isKnown) {
      folder.known.delete(name);
      this.#options.budget.release("entries", 1);
    }
  }

  async #addFolder(folder: string, how: AddOptions): Promise<void> {
    if (this.#isClosed || this.#folders.has(folder)) return;
    this.#options.budget.reserve("directories");
    try {
      const watcher = watch(this.#absolute(folder), (kind, name) => {
        this.#onRaw({ folder, name: name ?? "", kind });
      });
      // An error of a single watch means that its folder is gone; its parent tells the rest.
      watcher.on("error", () => watcher.close());
      this.#folders.set(folder, { watcher, known: new Map() });
    } catch (error) {
      this.#options.budget.release("directories", 1);
      if (how.isRoot || !SKIPPED.has(causeCode(error) ?? "")) throw toArmFault(error);
      return;
    }
    const remembered = how.remembered?.get("");
    for (const [name, seen] of remembered ?? []) this.#rememberIn(folder, name, seen);
    const names = await this.#scan(folder, how);
    // News that came while the folder was on its way were told of its old place, and are lost.
    if (remembered !== undefined) await this.#tellMissing(folder, names);
  }

  /** Reports what is known of a folder and is not there any more. */
  async #tellMissing(folder: string, names: ReadonlySet<string>): Promise<void> {
    const known = [...(this.#folders.get(folder)?.known.keys() ?? [])];
    for (const name of known.filter((candidate) => !names.has(candidate))) {
      const event: RawEvent = { folder, name, kind: "rename" };
      await this.#handle(event, { now: undefined, next: undefined });
    }
  }

  #rememberIn(folder: string, name: string, seen: Seen): void {
    const watched = this.#folders.get(folder);
    if (watched !== undefined) this.#remember(watched, name, seen);
  }

  /** Finds what a folder holds that is not known yet, and enters the folders among it. */
  async #scan(folder: string, how: AddOptions): Promise<Set<string>> {
    const names = await this.#readNames(folder);
    const list = [...names];
    for (let start = 0; start < list.length && !this.#isClosed; start += BATCH) {
      const batch = list.slice(start, start + BATCH);
      const looks = await Promise.all(
        batch.map(async (name) => this.#look({ folder, name, kind: "rename" })),
      );
      for (const [index, name] of batch.entries()) {
        await this.#found(folder, { name, now: looks[index] }, how);
      }
    }
    return names;
  }

  async #found(
    folder: string,
    item: { readonly name: string; readonly now: Seen | undefined },
    how: AddOptions,
  ): Promise<void> {
    const { name, now } = item;
    const watched = this.#folders.get(folder);
    if (watched === undefined || now === undefined) return;
    const known = watched.known.get(name);
    if (known === undefined || !isSameObject(known, now)) {
      this.#remember(watched, name, how.isReported ? toNewcomer(now) : now);
      if (how.isReported) await this.#options.onEvent(joinPath(folder, name), EventType.CREATE);
    } else if (isRewritten(known, now)) {
      this.#remember(watched, name, now);
      await this.#options.onEvent(joinPath(folder, name), EventType.WRITE);
    }
    if (!now.isDirectory || !this.#options.isRecursive) return;
    const below = how.remembered && subtree(how.remembered, name);
    await this.#addFolder(joinPath(folder, name), {
      isReported: how.isReported,
      ...(below && { remembered: below }),
    });
  }

  async #readNames(folder: string): Promise<Set<string>> {
    const names = new Set<string>();
    try {
      for await (const entry of await opendir(this.#absolute(folder), { bufferSize: 256 })) {
        names.add(entry.name);
      }
    } catch (error) {
      if (!SKIPPED.has(causeCode(error) ?? "")) throw error;
      // The folder went away again; its parent tells.
    }
    return names;
  }

  /** Compares every folder with what is known of it, in case the kernel dropped events. */
  async #afterBurst(): Promise<void> {
    if (this.#raw.takeBurst() < BURST) return;
    for (const folder of this.#folders.keys()) {
      await this.#tellMissing(folder, await this.#scan(folder, { isReported: true }));
    }
  }

  /** Forgets a folder and all below it; returns what was known, by path relative to it. */
  #dropTree(top: string): Map<string, Map<string, Seen>> {
    const dropped = new Map<string, Map<string, Seen>>();
    for (const [folder, { known }] of this.#folders) {
      if (folder !== top && !folder.startsWith(`${top}/`)) continue;
      dropped.set(folder.slice(top.length + 1), known);
      this.#dropFolder(folder);
    }
    return dropped;
  }

  #dropFolder(folder: string): void {
    const watched = this.#folders.get(folder);
    if (watched === undefined) return;
    watched.watcher.close();
    this.#folders.delete(folder);
    this.#options.budget.release("directories", 1);
    this.#options.budget.release("entries", watched.known.size);
  }

  #nameOf(folder: string): string {
    return baseName(folder === "" ? this.#options.root : folder);
  }
}

interface AddOptions {
  /** Whether what is found is reported as created. */
  readonly isReported: boolean;
  readonly isRoot?: boolean;
  /** What was known of this tree at its old place, by relative path. */
  readonly remembered?: ReadonlyMap<string, ReadonlyMap<string, Seen>>;
}

/** The kernel says of its own allowance that there is no space left, or no file to open. */
function toArmFault(error: unknown): unknown {
  if (!EXHAUSTED.has(causeCode(error) ?? "")) return error;
  const message = "the system's limit of inotify watches is reached";
  return new SandboxError("resource_exhausted", message, { cause: error });
}

function toFailure(error: unknown): SandboxError {
  const text = error instanceof SandboxError ? `: ${error.message}` : "";
  return new SandboxError("internal", `watcher error${text}`, { cause: error });
}

function subtree(
  tree: ReadonlyMap<string, ReadonlyMap<string, Seen>>,
  name: string,
): Map<string, ReadonlyMap<string, Seen>> {
  const below = new Map<string, ReadonlyMap<string, Seen>>();
  for (const [path, known] of tree) {
    if (path === name) below.set("", known);
    else if (path.startsWith(`${name}/`)) below.set(path.slice(name.length + 1), known);
  }
  return below;
}
