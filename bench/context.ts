/** What every part of the bench is given. */

import type { Peers } from "./peers.ts";
import type { PlainRuntime } from "./runtime.ts";

export interface BenchContext {
  /** A home with the base template, for servers that the bench starts. */
  readonly home: string;
  readonly peers: Peers;
  readonly runtime: PlainRuntime;
}
