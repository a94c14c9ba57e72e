/**
 * Keeps the disk of the service from becoming full under the images of sandboxes: limits how much
 * each may grow when little is left, pauses those that write when less is left, and resumes them
 * when there is space again (ADR 27).
 */

import { anySignal } from "../common/any-signal.ts";
import { asOperation } from "../common/operation.ts";
import type { SandboxContext, SandboxEntry } from "./context.ts";
import {
  divideAll,
  nextLookMs,
  planBudget,
  type DiskBudget,
  type HostSpace,
} from "./disks/disk-budget.ts";
import { openDiskImages, type DiskImages, type ImageLook } from "./disks/disk-images.ts";
import { readSpace } from "./disks/disk-space.ts";
import { notePromisedToOthers, readOtherImages } from "./other-images.ts";
import { pauseEntry } from "./pause/pause-sandbox.ts";
import { resumeEntry } from "./pause/resume-sandbox.ts";

const FIRST_LOOK_MS = 25;
/** While no disk image is mounted; a sandbox that starts is noted. */
const IDLE_LOOK_MS = 30_000;
/** After a look, a pause or a resumption that failed. */
const RETRY_MS = 1_000;
const MS_PER_S = 1_000;
const BYTES_PER_MB = 1024 ** 2;

export interface DiskWatch extends AsyncDisposable {
  /** Looks soon: a sandbox may have begun to run. */
  note(): void;
}

/** Watches until the registry closes; it is disposed of after that. */
export function startDiskWatch(
  context: SandboxContext,
  options: { readonly leavesSandboxes: boolean },
): DiskWatch {
  const { clock, closing, log } = context;
  const changes = createChanges(context);
  let isLimited = false;
  let isIdle = false;
  /** Since the last look began. */
  let isNoted = false;
  let waker = new AbortController();

  async function sleep(ms: number): Promise<void> {
    if (isIdle && isNoted) return;
    waker = new AbortController();
    try {
      await clock.sleep(ms, anySignal([closing, waker.signal]));
    } catch (error) {
      // A note is no fault.
      if (!waker.signal.aborted) throw error;
    }
  }

  async function watch(): Promise<void> {
    const images = await openDiskImages(context);
    let waitMs = FIRST_LOOK_MS;
    while (!closing.aborted) {
      try {
        await sleep(waitMs);
        waitMs = await asOperation("disk.watch", () => look(images, waitMs));
      } catch (error) {
        if (closing.aborted) break;
        log.error({ op: "disk.watch", err: error }, "disk was not looked at");
        waitMs = RETRY_MS;
      }
    }
    await changes.settle();
    await images.settle();
    if (options.leavesSandboxes) await limitAll(context, images);
  }

  async function look(images: DiskImages, lastMs: number): Promise<number> {
    isNoted = false;
    const looks = await images.lookAtAll();
    isIdle = looks.length === 0 && !changes.hasWaiting();
    if (isIdle) {
      await notePromisedToOthers(context);
      return IDLE_LOOK_MS;
    }
    const { space, budget } = await readBudget(context, looks, isLimited);
    if (budget.isLimited !== isLimited) tell(log, budget);
    isLimited = budget.isLimited;
    images.apply(looks, budget);
    if (budget.isFull) for (const found of looks) changes.pauseWriters(found);
    else if (budget.hasSpace) changes.resumeOldest();
    return nextLookMs(space, budget, {
      lastMs,
      isGrowing: looks.some(({ image }) => image.isGrowing),
    });
  }

  const watching = watch().catch((error: unknown) =>
    log.error({ op: "disk.watch", err: error }, "disk is not watched"),
  );
  return {
    note() {
      isNoted = true;
      if (isIdle) waker.abort();
    },
    [Symbol.asyncDispose]: async () => watching,
  };
}

function tell(log: SandboxContext["log"], budget: DiskBudget): void {
  const spareMb = Math.floor(budget.spareBytes / BYTES_PER_MB);
  if (budget.isLimited) log.warn({ op: "disk.watch", spareMb }, "disk is nearly full");
  else log.info({ op: "disk.watch", spareMb }, "disk has room again");
}

/** With what other services and copies take; copies leave what images were promised. */
async function readBudget(
  context: SandboxContext,
  looks: readonly ImageLook[],
  isLimited: boolean,
): Promise<{ readonly space: HostSpace; readonly budget: DiskBudget }> {
  const { copies, directory } = context;
  const others = await readOtherImages(context);
  const space = await readSpace(directory);
  const images = looks.map(({ image }) => image);
  const budget = planBudget(space, images, { isLimited, copyBytes: copies.bytes, others });
  copies.notePromised(budget.promisedBytes);
  return { space, budget };
}

/** No service looks any more: the sum of what may grow is what there is. */
async function limitAll(context: SandboxContext, images: DiskImages): Promise<void> {
  const looks = await images.lookAtAll();
  if (looks.length === 0) return;
  const all = looks.map(({ image }) => ({ ...image, isGrowing: false }));
  const others = await readOtherImages(context);
  images.limit(divideAll(await readSpace(context.directory), all, others));
}

/** Pauses and resumptions by the watch; their faults are logged. */
function createChanges(context: SandboxContext) {
  const { clock, entries, log } = context;
  const changes = new Set<Promise<void>>();
  /** Of those whose change failed: one that fails again and again must not hold up the others. */
  const retryAtMs = new WeakMap<SandboxEntry, number>();
  const retryOf = (entry: SandboxEntry) => retryAtMs.get(entry) ?? 0;
  const isDue = (entry: SandboxEntry) => clock.elapsed() >= retryOf(entry);

  async function attempt(entry: SandboxEntry, work: () => Promise<void>): Promise<void> {
    try {
      await work();
    } catch (error) {
      retryAtMs.set(entry, clock.elapsed() + RETRY_MS);
      const { sandboxId } = entry.record;
      log.warn({ op: "disk.watch", sandboxId, err: error }, "change is tried again");
    }
  }

  function begin(entry: SandboxEntry, work: () => Promise<void>): void {
    const change = attempt(entry, work);
    changes.add(change);
    void change.finally(() => changes.delete(change));
  }

  const waiting = () =>
    [...entries.values()].filter(
      (entry) => isAtRest(entry, "paused") && entry.record.pauseReason === "disk_full",
    );

  return {
    hasWaiting: () => waiting().length > 0,
    pauseWriters({ writers, hasGrown }: ImageLook): void {
      for (const entry of writers) {
        const mayWrite = hasGrown || writesUnseen(context, entry);
        if (!mayWrite || !isAtRest(entry, "running") || !isDue(entry)) continue;
        const leftMs = Math.max(entry.record.endAtMs - clock.now(), 0);
        const pause = { reason: "disk_full", keepsMemory: true, leftMs } as const;
        begin(entry, () => pauseEntry(context, entry, pause));
      }
    },
    /** One at a time: what it writes counts before the next one. */
    resumeOldest(): void {
      if (changes.size > 0) return;
      const [oldest] = waiting()
        .filter(isDue)
        .toSorted((left, right) => left.record.endAtMs - right.record.endAtMs)
        .toSorted((left, right) => retryOf(left) - retryOf(right));
      if (oldest === undefined) return;
      const timeoutSeconds = Math.ceil(oldest.record.leftMs / MS_PER_S);
      begin(oldest, () => resumeEntry(context, oldest, { timeoutSeconds, keepsMemory: true }));
    },
    settle: async () => void (await Promise.allSettled(changes)),
  };
}

/**
 * Whether a sandbox can take space that no image shows: a volume without a disk is a folder of the
 * home, and shared blocks take space without any growth.
 */
function writesUnseen(
  { volumeDisks }: SandboxContext,
  { record, container }: SandboxEntry,
): boolean {
  if (record.volumeMounts.some(({ volumeId }) => !volumeDisks.has(volumeId))) return true;
  return container.disk?.sharesBlocks() === true;
}

/** Whether nothing is under way with it. */
function isAtRest(entry: SandboxEntry, phase: "running" | "paused"): boolean {
  return entry.change === undefined && entry.ending === undefined && entry.phase === phase;
}
