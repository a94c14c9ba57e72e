/** Memory without its garbage. */

import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";

/** Bytes that this process holds after a forced collection. */
export function heldBytes(): number {
  setFlagsFromString("--expose-gc");
  const collect: unknown = runInNewContext("gc");
  if (typeof collect !== "function") throw new Error("no collector");
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}
