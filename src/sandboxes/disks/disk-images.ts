/**
 * The mounted disk images of sandboxes and volumes: how each grows, and the limits that the kernel
 * holds.
 */

import { basename, dirname } from "node:path";
import { setImmediate } from "node:timers/promises";
import { createGate } from "../../common/concurrency.ts";
import type { GrowingDisk } from "../../engine/engine.ts";
import { readMounts } from "../../engine/host/mount-table.ts";
import type { Folders, Registry, SandboxEntry, Services } from "../context.ts";
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

export interface ImageLook {
  /** The sandboxes that may write to it. */
  readonly writers: readonly SandboxEntry[];
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
export async function openDiskImages(
  context: Services & Registry & Pick<Folders, "volumeDisks">,
): Promise<DiskImages> {
  const { clock, log } = context;
  const known = new Map<string, Watched>();
  const gate = createGate(REMOUNTS_AT_ONCE);
  const changes = new Set<Promise<void>>();
  const returning = await findReturning();

  function lookAt({ name, disk, writers }: NamedDisk): ImageLook | undefined {
    const growth = disk.readGrowth();
    if (growth === undefined) {
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
    return { writers, hasGrown, image: { ...growth, name, isGrowing } };
  }

  async function returnFreed(watched: Watched, name: string): Promise<void> {
    try {
      await watched.disk.returnFreedBlocks(watched.returnsFreed);
    } catch (error) {
      // One that has just ended has no mount any more.
      log.debug({ op: "disk.watch", name, err: error }, "free blocks stay taken");
    }
  }

  return {
    async lookAtAll() {
      const looks: ImageLook[] = [];
      const disks = listDisks(context);
      for (const name of known.keys()) if (!disks.has(name)) known.delete(name);
      for (const [index, disk] of [...disks.values()].entries()) {
        const found = lookAt(disk);
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

interface NamedDisk {
  readonly name: string;
  readonly disk: GrowingDisk;
  readonly writers: readonly SandboxEntry[];
}

/** Those of sandboxes, and of the volumes that this process has mounted. */
function listDisks({
  entries,
  volumeDisks,
}: Registry & Pick<Folders, "volumeDisks">): ReadonlyMap<string, NamedDisk> {
  const disks = new Map<string, NamedDisk>();
  const writersOf = new Map<string, SandboxEntry[]>();
  for (const [name, disk] of volumeDisks.mounted()) {
    const writers: SandboxEntry[] = [];
    writersOf.set(name, writers);
    disks.set(name, { name, disk, writers });
  }
  for (const [name, entry] of entries) {
    const { disk } = entry.container;
    if (entry.ending !== undefined) continue;
    if (disk !== undefined) disks.set(name, { name, disk, writers: [entry] });
    for (const { volumeId } of entry.record.volumeMounts) writersOf.get(volumeId)?.push(entry);
  }
  return disks;
}

/** The limit of an earlier process may still hold. */
function toWatched(disk: GrowingDisk, baseBytes: number, returnsFreed: boolean): Watched {
  return { disk, baseBytes, grewAtMs: -Infinity, isLimited: true, returnsFreed };
}

/** Sandboxes and volumes whose disks an earlier process had return free blocks. */
async function findReturning(): Promise<ReadonlySet<string>> {
  const mounts = (await readMounts()).filter(({ options }) => options.includes("discard"));
  return new Set(mounts.map(({ target }) => basename(dirname(target))));
}
