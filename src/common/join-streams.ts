/** Two connections become one. */

import type { Duplex } from "node:stream";

/**
 * What ends here ends there, once all that came before was passed on; what breaks here breaks there.
 * A reader that is slow gets the last bytes too.
 */
export function joinStreams(left: Duplex, right: Duplex): void {
  for (const [source, target] of [
    [left, right],
    [right, left],
  ] as const) {
    source.on("error", () => target.destroy());
    source.once("close", () => closeAfter(source, target));
    source.pipe(target);
  }
}

function closeAfter(source: Duplex, target: Duplex): void {
  const isWhole = source.readableEnded && !target.writableFinished;
  if (isWhole) target.once("finish", () => target.destroy());
  else target.destroy();
}
