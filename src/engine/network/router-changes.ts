/** What changes in the rules of a router that is there, each in one moment, as text for nft. */

import { BLOCKED_NETWORKS } from "./egress.ts";
import { lines, MAX_RESOLVERS, nameServers } from "./router-rules.ts";

/** The outside's own addresses, instead of those that the router had before, in one moment. */
export function hostRules(hosts: readonly string[]): string {
  return lines([
    "flush set inet sandboxes never",
    `add element inet sandboxes never { ${[...BLOCKED_NETWORKS, ...hosts].join(", ")} }`,
  ]);
}

/**
 * Other name servers than before. A sandbox has one address for each that there was when it was made:
 * where there are fewer now, several lead to the same one.
 */
export function resolverRules(resolvers: readonly string[]): string {
  const pairs = nameServers(MAX_RESOLVERS).map(
    (server, index) => `${server} : ${resolvers[index % resolvers.length]}`,
  );
  const added =
    resolvers.length === 0
      ? []
      : [
          `add element inet sandboxes resolvers { ${pairs.join(", ")} }`,
          `add element inet sandboxes upstream { ${resolvers.join(", ")} }`,
        ];
  return lines([
    "flush map inet sandboxes resolvers",
    "flush set inet sandboxes upstream",
    ...added,
  ]);
}
