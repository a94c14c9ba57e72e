/** GET /usage on the host's side: what the daemon's container uses now, its processors over a moment. */

import { statfs } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { sendJson } from "../../common/http.ts";
import { countOutOfMemory, readCpu, readMemory } from "../metrics.ts";
import type { ControlExchange } from "./exchange.ts";

/** Long enough for the hundredths of a second in which some kernels count. */
const MOMENT_MS = 200;

export async function usage({ response }: ControlExchange): Promise<void> {
  const before = await readCpu();
  await delay(MOMENT_MS);
  const now = await readCpu();
  const [memory, disk, outOfMemoryKills] = await Promise.all([
    readMemory(),
    statfs("/"),
    countOutOfMemory(),
  ]);
  const body = {
    cpuMs: Math.max(now.usedMs - before.usedMs, 0),
    passedMs: now.atMs - before.atMs,
    memoryBytes: memory.used,
    cacheBytes: memory.cache,
    diskBytes: (disk.blocks - disk.bavail) * disk.bsize,
    diskTotalBytes: disk.blocks * disk.bsize,
    ...(outOfMemoryKills !== undefined && { outOfMemoryKills }),
  };
  sendJson(response, 200, { body });
}
