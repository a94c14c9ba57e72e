/** What of the memory of a cgroup is page cache. */

import { expect, test } from "vitest";
import { readCacheBytes } from "../../../src/common/page-cache.ts";

test.for([
  { host: "version 2", stat: "anon 5\nfile 900\nkernel 7\nshmem 600\nfile_mapped 8\n", bytes: 300 },
  {
    host: "version 1",
    stat: "cache 1\nrss 2\nshmem 1\ntotal_cache 900\ntotal_rss 5\ntotal_shmem 600\n",
    bytes: 300,
  },
  { host: "a kernel that does not tell files in memory apart", stat: "file 900\n", bytes: 900 },
  { host: "no memory.stat", stat: "", bytes: 0 },
])("$host: files in memory are no cache", ({ stat, bytes }) => {
  expect(readCacheBytes(stat)).toBe(bytes);
});
