/** How much comes over the connections of one fetch, while they are open and in all. */

import type { Socket } from "node:net";

const COUNT_MS = 200;

/** Adds up what comes from registries; calls once it is too much. */
export function countTraffic(
  maxBytes: number,
  onTooMuch: () => void,
): Disposable & { add(target: Socket): void } {
  const open = new Set<Socket>();
  let ended = 0;
  const timer = setInterval(() => {
    const bytes = [...open].reduce((sum, { bytesRead }) => sum + bytesRead, ended);
    if (bytes <= maxBytes) return;
    clearInterval(timer);
    onTooMuch();
  }, COUNT_MS);
  return {
    add(target) {
      open.add(target);
      target.once("close", () => {
        open.delete(target);
        ended += target.bytesRead;
      });
    },
    [Symbol.dispose]: () => clearInterval(timer),
  };
}
