/** Whether this process may change networks: the capabilities of root that `nsenter`, `ip` and `nft` need. */

import { readKernelFile } from "../../common/files.ts";
import type { Logger } from "../../common/log.ts";
import { hasRight } from "../../common/privilege.ts";

/** CAP_NET_ADMIN and CAP_SYS_ADMIN, by their numbers in capabilities(7). */
const RIGHTS = [12, 21] as const;

/**
 * Without the rights a router of an earlier run stays: its links end with their containers, and what is left of
 * it forwards nothing. That is told once; another try would fail as well.
 */
export function createRightsCheck(
  log: Logger | undefined,
  readStatus = () => readKernelFile("/proc/self/status"),
): () => boolean {
  let known: boolean | undefined;
  return () => {
    if (known !== undefined) return known;
    const status = readStatus();
    known = status === undefined || RIGHTS.every((right) => hasRight(status, right));
    if (!known) log?.warn({ op: "network.rules", outcome: "left" }, LEFT);
    return known;
  };
}

const LEFT =
  "without CAP_NET_ADMIN the network of sandboxes of an earlier run is not removed: " +
  "a service with it removes the rest when its last sandbox ends";
