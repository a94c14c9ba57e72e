/** A home for spools in a folder of its own, and what its files hold. */

import { join } from "node:path";
import { createSilentLog } from "../../../src/common/log.ts";
import { readPieces } from "../../../src/spool/reader.ts";
import { startSpools, type Spools } from "../../../src/spool/spools.ts";
import type { SpoolWriter } from "../../../src/spool/writer.ts";
import { makeTempFolder } from "../temp-folder.ts";

export const SPOOL_KEY = { sandboxId: "i1", name: "p_7" };

export interface SpoolDisk extends AsyncDisposable {
  readonly root: string;
  nowMs: number;
  /** A server of its own on this disk. */
  start(): Spools;
}

/** An empty disk. */
export async function makeSpoolDisk(): Promise<SpoolDisk> {
  await using stack = new AsyncDisposableStack();
  const { path } = stack.use(await makeTempFolder());
  const owned = stack.move();
  const root = join(path, "local");
  const clock = { now: () => disk.nowMs, elapsed: () => disk.nowMs };
  const disk: SpoolDisk = {
    root,
    nowMs: Date.now(),
    start: () => owned.use(startSpools({ root, clock, log: createSilentLog() })),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
  return disk;
}

/** A new spool. */
export function createSpool(
  spools: Spools,
  limits: { readonly fileBytes: number; readonly headBytes: number; readonly tailBytes: number },
): SpoolWriter {
  const writer = spools.create(SPOOL_KEY, limits);
  if (writer === undefined) throw new Error("no spool");
  return writer;
}

/** All that a spool keeps, in order. */
export async function readSpool(folder: string): Promise<Buffer> {
  const parts: Buffer[] = [];
  for (let at = 0; ;) {
    const pieces = await readPieces(folder, at, 300_000);
    const last = pieces.at(-1);
    if (last === undefined) return Buffer.concat(parts);
    for (const { bytes } of pieces) parts.push(bytes);
    at = last.start + last.bytes.length;
  }
}
