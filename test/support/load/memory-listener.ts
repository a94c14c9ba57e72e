/**
 * Preloaded into the built program, which runs with `--expose-gc`: on SIGUSR2 it collects its garbage
 * and writes what it holds then into a file.
 */

import { renameSync, writeFileSync } from "node:fs";

/** Where it is written. */
export const MEMORY_VARIABLE = "MEMORY_REPORT";

/** Bytes after a forced collection. */
export interface MemoryReport {
  readonly heapUsed: number;
  /** Of buffers and of what is bound to objects of the heap. */
  readonly external: number;
  readonly rss: number;
}

/** What is finalized in one collection is gone with the next. */
const COLLECTIONS = 3;

const path = process.env[MEMORY_VARIABLE] ?? "";

function report(): void {
  for (let count = 0; count < COLLECTIONS; count += 1) globalThis.gc?.();
  const { heapUsed, external, rss } = process.memoryUsage();
  writeFileSync(`${path}.part`, JSON.stringify({ heapUsed, external, rss }));
  renameSync(`${path}.part`, path);
}

if (path !== "") process.on("SIGUSR2", report);
