/**
 * Watches a directory, and on request everything below it, by what inotify itself says. Directories
 * are watched first and listed then. Whether the path of one still led to it is known once every
 * event of before the listing was told: if one of them names a part of the path, it is tried again.
 */

import { setImmediate as nextTurn, setTimeout as delay } from "node:timers/promises";
import { createBackoff } from "../../common/backoff.ts";
import { SandboxError } from "../../common/errors.ts";
import { fromSystemBytes, toSystemBytes } from "../../common/file-names.ts";
import type { EventType } from "../../gen/filesystem/filesystem_pb.ts";
import { EventApplier } from "./apply-events.ts";
import { applyListing } from "./apply-listing.ts";
import { startArmLimit } from "./arm-limit.ts";
import type { Directory } from "./directory.ts";
import type { Inotify, Notice } from "./inotify.ts";
import { EventMask, type KernelEvent } from "./kernel-event.ts";
import type { WatchReport } from "./listing.ts";
import { NoticeQueue } from "./notice-queue.ts";
import { Tree } from "./tree.ts";
import type { WatchBudget } from "./watch-budget.ts";

export interface TreeWatchOptions {
  /** Absolute path of an existing directory. */
  readonly root: string;
  readonly isRecursive: boolean;
  readonly budget: WatchBudget;
  readonly inotify: Inotify;
  /** Called in order, each call awaited; names are relative to the root. */
  onEvent(name: string, type: EventType): Promise<void>;
  /** The kernel dropped events; what they told is found by looking at the whole tree. */
  onOverflow(): void;
  /** The watch has ended for this reason; nothing follows. */
  onFailure(error: SandboxError): void;
}

/** Directories of one request. */
const BATCH = 64;
/** So many events are applied before other work of the daemon has its turn. */
const TURN = 256;
/** How far apart the halves of a move are looked for: the kernel tells them one after the other. */
const MAX_APART = 256;
/** The second half of a move is there at once, or the move led out of the tree. */
const MOVE_WAIT_MS = 20;
/** How long before it is read an event may have come on a busy machine. */
const MAX_LATENESS_MS = 5000;
/** Between tries to watch directories that keep on moving. */
const MIN_RETRY_MS = 2;
const MAX_RETRY_MS = 100;
const MS_PER_SECOND = 1000;
const STRUCTURAL = EventMask.create | EventMask.delete | EventMask.movedFrom | EventMask.movedTo;

interface Reply {
  readonly reports: readonly WatchReport[];
  readonly before: KernelEvent[];
  /** Whether the kernel dropped none of the events. */
  readonly isWhole: boolean;
}

/** A running watch; disposing of it ends every watch of the kernel that it holds. */
export class TreeWatch implements Disposable {
  readonly #options: TreeWatchOptions;
  readonly #tree: Tree;
  readonly #applier: EventApplier;
  readonly #closing = new AbortController();
  readonly #subscriber = (notice: Notice) => this.#onNotice(notice);
  readonly #notices: NoticeQueue;
  #isClosed = false;
  readonly #backoff = createBackoff(MIN_RETRY_MS, MAX_RETRY_MS);
  /** Events may be lost since this second, until everything was looked at. */
  #lostSinceS: number | undefined;
  /** When the last burst of events began. */
  #burstAtMs = Date.now();

  constructor(options: TreeWatchOptions) {
    this.#options = options;
    this.#notices = new NoticeQueue(options.budget);
    this.#tree = new Tree({
      isRecursive: options.isRecursive,
      budget: options.budget,
      release: (wds) => options.inotify.release(this.#subscriber, wds),
    });
    this.#applier = new EventApplier(this.#tree);
  }

  /** Arms every watch without reporting what is there. @throws SandboxError, or a system error */
  async arm(): Promise<void> {
    this.#options.inotify.open(this.#subscriber);
    try {
      await this.#armPending();
    } catch (error) {
      this[Symbol.dispose]();
      throw error;
    }
    // It catches what it throws and ends the watch then.
    void this.#run();
  }

  async #armPending(): Promise<void> {
    const limit = startArmLimit();
    while (this.#tree.pending.size > 0 && !this.#isClosed) {
      // What came since the last request has changed the paths of the next one.
      if (!this.#notices.isEmpty) await this.#applyNotices(this.#notices.take());
      limit(await this.#watchPending());
    }
  }

  [Symbol.dispose](): void {
    if (this.#isClosed) return;
    this.#isClosed = true;
    this.#closing.abort();
    this.#tree.drop(this.#tree.root);
    this.#options.inotify.close(this.#subscriber);
    this.#notices.close();
  }

  #onNotice(notice: Notice): void {
    try {
      this.#notices.push(notice);
    } catch (error) {
      this.#fail(toFailure(error));
    }
  }

  async #run(): Promise<void> {
    try {
      while (!this.#isClosed) {
        if (!this.#notices.isEmpty) await this.#applyNotices(this.#notices.take());
        else if (this.#tree.pending.size > 0) await this.#watchPending();
        else await this.#idle();
      }
    } catch (error) {
      this.#fail(toFailure(error));
    }
  }

  #fail(error: SandboxError): void {
    if (this.#isClosed) return;
    this[Symbol.dispose]();
    this.#options.onFailure(error);
  }

  async #idle(): Promise<void> {
    this.#lostSinceS = undefined;
    this.#backoff.reset();
    await this.#notices.arrival();
    this.#burstAtMs = Date.now();
    // Events that belong together are told one by one in the same turn.
    await nextTurn();
  }

  async #applyNotices(notices: readonly Notice[]): Promise<void> {
    const events: KernelEvent[] = [];
    for (const notice of notices) {
      if (notice.kind === "event") events.push(notice.event);
      if (notice.kind === "overflow") this.#noteOverflow();
      if (notice.kind === "lost") this.#noteLoss(notice.error);
    }
    await this.#applyEvents(events);
  }

  #noteOverflow(): void {
    this.#suspectFiles();
    this.#tree.suspectAll();
    this.#options.onOverflow();
  }

  #noteLoss(error: SandboxError | undefined): void {
    if (error !== undefined) throw error;
    this.#suspectFiles();
    this.#tree.loseWatches();
  }

  #suspectFiles(): void {
    this.#lostSinceS ??= Math.floor((this.#burstAtMs - MAX_LATENESS_MS) / MS_PER_SECOND);
  }

  async #applyEvents(events: KernelEvent[]): Promise<void> {
    const paired = new Set<number>();
    for (let index = 0; index < events.length && !this.#isClosed; index += 1) {
      if (index % TURN === TURN - 1) await nextTurn();
      const event = events[index];
      if (event === undefined || isSecondHalf(event, paired)) continue;
      if ((event.mask & EventMask.movedFrom) === 0) this.#applier.apply(event);
      else await this.#applyMove(events, { index, event, paired });
      await this.#deliver();
    }
  }

  async #applyMove(
    events: KernelEvent[],
    at: { readonly index: number; readonly event: KernelEvent; readonly paired: Set<number> },
  ): Promise<void> {
    const { index, event, paired } = at;
    const find = () =>
      events
        .slice(index + 1, index + 1 + MAX_APART)
        .find(({ mask, cookie }) => (mask & EventMask.movedTo) !== 0 && cookie === event.cookie);
    if (find() === undefined && events.length - index <= MAX_APART) {
      events.push(...(await this.#waitForEvents()));
    }
    const second = find();
    if (second !== undefined) paired.add(event.cookie);
    this.#applier.move(event, second);
  }

  /** Events that come within the time that a move takes; everything else stays where it is. */
  async #waitForEvents(): Promise<readonly KernelEvent[]> {
    const timeout = new AbortController();
    await Promise.race([
      this.#notices.arrival(),
      delay(MOVE_WAIT_MS, undefined, { signal: timeout.signal }).catch(() => undefined),
    ]);
    timeout.abort();
    return this.#notices.takeEvents();
  }

  async #deliver(): Promise<void> {
    for (const { name, type } of this.#tree.takeTold()) {
      if (this.#isClosed) return;
      await this.#options.onEvent(fromSystemBytes(Buffer.from(name, "latin1")), type);
    }
    if (this.#tree.hasEnded) this[Symbol.dispose]();
  }

  /** Watches and lists some of the directories that wait for it; false when each of them moved. */
  async #watchPending(): Promise<boolean> {
    const batch = [...this.#tree.pending].slice(0, BATCH);
    const isRoot = batch[0] === this.#tree.root;
    const directories = isRoot ? batch.slice(0, 1) : batch;
    const paths = directories.map((directory) => this.#absolute(directory));
    this.#options.inotify.watch(this.#subscriber, paths, { followsLinks: isRoot });
    const { reports, before, isWhole } = await this.#reply();
    const named = new Set(
      before.filter(({ mask }) => (mask & STRUCTURAL) !== 0).map(({ wd, name }) => `${wd}/${name}`),
    );
    const settled: Directory[] = [];
    for (const [index, directory] of directories.entries()) {
      const report = reports[index];
      if (report === undefined || this.#isClosed) continue;
      const isSure = isWhole && directory.isAttached;
      if (isSure && !directory.chain.some((part) => named.has(part))) {
        applyListing(this.#tree, directory, { report, lostSinceS: this.#lostSinceS });
        settled.push(directory);
      } else this.#tree.releaseUnknown(report.wd);
    }
    await this.#deliver();
    await this.#applyEvents(before);
    for (const directory of settled) directory.unconfirmed.clear();
    if (settled.length === 0) await this.#backOff();
    return settled.length > 0;
  }

  async #backOff(): Promise<void> {
    await delay(this.#backoff.next(), undefined, { signal: this.#closing.signal }).catch(
      () => undefined,
    );
  }

  /** The answer to a request with the events of before; no reports where watches were lost. */
  async #reply(): Promise<Reply> {
    const before: KernelEvent[] = [];
    let isWhole = true;
    for (;;) {
      await this.#notices.arrival();
      if (this.#isClosed) return { reports: [], before: [], isWhole };
      const notices = this.#notices.take();
      for (const [index, notice] of notices.entries()) {
        if (notice.kind === "event") before.push(notice.event);
        if (notice.kind === "overflow") {
          isWhole = false;
          this.#noteOverflow();
        }
        if (notice.kind !== "lost" && notice.kind !== "watched") continue;
        this.#notices.putBack(notices.slice(index + 1));
        if (notice.kind === "watched") return { reports: notice.reports, before, isWhole };
        this.#noteLoss(notice.error);
        return { reports: [], before: [], isWhole };
      }
    }
  }

  #absolute(directory: Directory): string {
    const root = toSystemBytes(this.#options.root).toString("latin1");
    const { path } = directory;
    return path === "" ? root : `${root === "/" ? "" : root}/${path}`;
  }
}

function isSecondHalf({ mask, cookie }: KernelEvent, paired: ReadonlySet<number>): boolean {
  return (mask & EventMask.movedTo) !== 0 && paired.has(cookie);
}

function toFailure(error: unknown): SandboxError {
  const text = error instanceof SandboxError ? `: ${error.message}` : "";
  return new SandboxError("internal", `watcher error${text}`, { cause: error });
}
