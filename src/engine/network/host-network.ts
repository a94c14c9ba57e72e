/** The network outside of the routers, as it was found. */

import type { NetworkPath } from "./namespace.ts";

/** Where a new router leads. */
export interface HostNetwork {
  readonly path: NetworkPath;
  /** IPv4 addresses of name servers that can be reached there, as they are now. */
  readonly resolvers: readonly string[];
  /** How often it was found to be another one. */
  readonly changes: number;
  /** File of the program for rules that name hosts. */
  readonly program: string;
  readonly perlDirectory: string;
}
