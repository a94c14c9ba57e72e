/** Two connections become one. */

import { Socket } from "node:net";
import type { Duplex } from "node:stream";

/** A reader that takes none of the last bytes for this long has gone, or never meant to read them. */
const LAST_BYTES_MS = 60_000;

/**
 * What ends here ends there, once all that came before was passed on; what breaks here breaks there.
 * A reader that is slow gets the last bytes too, of a socket one that takes some of them in each `idleMs`.
 */
export function joinStreams(left: Duplex, right: Duplex, idleMs = LAST_BYTES_MS): void {
  for (const [source, target] of [
    [left, right],
    [right, left],
  ] as const) {
    // One that was closed before says nothing more.
    if (source.destroyed) target.destroy();
    source.on("error", () => target.destroy());
    source.once("close", () => closeAfter(source, target, idleMs));
    source.pipe(target);
  }
}

function closeAfter(source: Duplex, target: Duplex, idleMs: number): void {
  const isWhole = source.readableEnded && !target.writableFinished;
  if (!isWhole) {
    target.destroy();
    return;
  }
  target.once("finish", () => target.destroy());
  if (target instanceof Socket) target.setTimeout(idleMs, () => target.destroy());
}
