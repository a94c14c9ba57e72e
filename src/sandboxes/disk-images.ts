/** The mounted disk images of the sandboxes: how each grows, and the limits that the kernel holds. */

import { basename, dirname } from "node:path";
import { setImmediate } from "node:timers/promises";
import { createGate } from "../common/concurrency.ts";
import type { GrowingDisk } from "../engine/engine.ts";
import { readMounts } from "../engine/host/mount-table.ts";
import type { Registry, SandboxEntry, Services } from "./context.ts";
import type { DiskBudget, GrowingImage } from "./disk-budget.ts";

const LOOKS_PER_TURN = 32;
/** Changes of mount options at once; each is a program. */
const REMOUNTS_AT_ONCE = 4;
/** A disk that grew by so much, the last of it within this time, is written to. */
const GROWTH_BYTES = 1024 ** 2;
const WRITING_MS = 1_000;

/** What is known of one image between looks. */
interface Watched {
  readonly disk: GrowingDisk;
  /** What it had taken or was promised when it last grew or shrank. */
  baseBytes: number;
  grewAtMs: number;
  isLimited: boolean;
  returnsFreed: boolean;
}

/** One image at one moment. */
export interface ImageLook {
  readonly entry: SandboxEntry;
  /** Since the look before. */
  readonly hasGrown: boolean;
  readonly image: GrowingImage;
}

export interface DiskImages {
  lookAtAll(): Promise<readonly ImageLook[]>;
  /** Sets or lifts the limits; what takes longer goes on in the background. */
  apply(looks: readonly ImageLook[], budget: DiskBudget): void;
  /** Sets these limits alone. */
  limit(limits: ReadonlyMap<string, number>): void;
  /** Resolves when nothing goes on in the background. */
  settle(): Promise<void>;
}

/** Looks first at what an earlier process left. */
export async function openDiskImages(context: Services & Registry): Promise<DiskImages> {
  const { clock, log } = context;
  const known = new Map<string, Watched>();
  const gate = createGate(REMOUNTS_AT_ONCE);
  const changes = new Set<Promise<void>>();
  const returning = await findReturning();

  function lookAt(entry: SandboxEntry): ImageLook | undefined {
    const { disk } = entry.container;
    const growth = entry.ending === undefined ? disk?.readGrowth() : undefined;
    const name = entry.record.sandboxId;
    if (disk === undefined || growth === undefined) {
      // A boot mounts it anew.
      known.delete(name);
      return undefined;
    }
    // What is promised to it already is no growth when it is written back.
    const bytes = Math.max(growth.usedBytes, growth.hostBytes);
    const watched = known.get(name) ?? toWatched(disk, bytes, returning.has(name));
    known.set(name, watched);
    const hasGrown = bytes >= watched.baseBytes + GROWTH_BYTES;
    if (hasGrown) watched.grewAtMs = clock.elapsed();
    if (hasGrown || bytes < watched.baseBytes) watched.baseBytes = bytes;
    const isGrowing = clock.elapsed() - watched.grewAtMs < WRITING_MS;
    return { entry, hasGrown, image: { ...growth, name, isGrowing } };
  }

  async function returnFreed(watched: Watched, sandboxId: string): Promise<void> {
    try {
      await watched.disk.returnFreedBlocks(watched.returnsFreed);
    } catch (error) {
      // One that has just ended has no mount any more.
      log.debug({ op: "disk.watch", sandboxId, err: error }, "free blocks stay taken");
    }
  }

  return {
    async lookAtAll() {
      const looks: ImageLook[] = [];
      const { entries } = context;
      for (const name of known.keys()) if (!entries.has(name)) known.delete(name);
      for (const [index, entry] of [...entries.values()].entries()) {
        const found = lookAt(entry);
        if (found !== undefined) looks.push(found);
        if (index % LOOKS_PER_TURN === LOOKS_PER_TURN - 1) await setImmediate();
      }
      return looks;
    },
    apply(looks, budget) {
      for (const { image } of looks) {
        const watched = known.get(image.name);
        if (watched === undefined) continue;
        // A limit that holds already is renewed: what was written since then is gone from it.
        if (budget.isLimited || watched.isLimited) {
          const limit = budget.limits.get(image.name);
          watched.isLimited = watched.disk.limitGrowth(limit) && limit !== undefined;
        }
        if (watched.returnsFreed === budget.isLimited) continue;
        watched.returnsFreed = budget.isLimited;
        const change = gate.run(() => returnFreed(watched, image.name));
        changes.add(change);
        void change.finally(() => changes.delete(change));
      }
    },
    limit(limits) {
      for (const [name, bytes] of limits) known.get(name)?.disk.limitGrowth(bytes);
    },
    settle: async () => void (await Promise.allSettled(changes)),
  };
}

/** The limit of an earlier process may still hold. */
function toWatched(disk: GrowingDisk, baseBytes: number, returnsFreed: boolean): Watched {
  return { disk, baseBytes, grewAtMs: -Infinity, isLimited: true, returnsFreed };
}

/** Sandboxes whose disks an earlier process had return free blocks. */
async function findReturning(): Promise<ReadonlySet<string>> {
  const mounts = (await readMounts()).filter(({ options }) => options.includes("discard"));
  return new Set(mounts.map(({ target }) => basename(dirname(target))));
}
