/** The page cache of a cgroup, by the text of its `memory.stat`, in either version of cgroups. */

/**
 * Bytes of files on disks. The kernel counts files in memory as cache, too, which it cannot give back:
 * those of a tmpfs, and at the level `gvisor` the memory of all programs.
 */
export function readCacheBytes(stat: string): number {
  const cache = fieldOf(stat, "total_cache") ?? fieldOf(stat, "file") ?? 0;
  const inMemory = fieldOf(stat, "total_shmem") ?? fieldOf(stat, "shmem") ?? 0;
  return Math.max(cache - inMemory, 0);
}

function fieldOf(stat: string, name: string): number | undefined {
  const value = new RegExp(`^${name} (\\d+)$`, "m").exec(stat)?.[1];
  return value === undefined ? undefined : Number(value);
}
