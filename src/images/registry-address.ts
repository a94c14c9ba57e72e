/** Which registries a request may name: none in the network of the service itself. */

import { lookup } from "node:dns/promises";
import { BlockList, isIP, isIPv6 } from "node:net";
import { SandboxError } from "../common/errors.ts";
import { quoteUntrusted } from "../common/untrusted-text.ts";
import { BLOCKED_NETWORKS } from "../engine/network/egress.ts";
import type { Source } from "./reference.ts";

const PUBLIC_IPV6 = new BlockList();
PUBLIC_IPV6.addSubnet("2000::", 3, "ipv6");
/** Addresses that carry an IPv4 address in them: 6to4 and Teredo. */
const CARRIERS = new BlockList();
CARRIERS.addSubnet("2002::", 16, "ipv6");
CARRIERS.addSubnet("2001::", 32, "ipv6");

const OWN_NETWORKS = new BlockList();
for (const network of BLOCKED_NETWORKS) {
  const [base = "", length = ""] = network.split("/");
  OWN_NETWORKS.addSubnet(base, Number(length), "ipv4");
}

/**
 * Refuses a registry at an address that sandboxes may not reach either, unless a rule of
 * `--registry-mirror` leads there: then the owner of the service named it. skopeo looks the name up
 * again, so a name that changes between the two is not noticed.
 * @throws SandboxError permission_denied, unavailable for a name without an address
 */
export async function requirePublicRegistry({ host, isMirrored }: Source): Promise<void> {
  if (host === undefined || isMirrored) return;
  const name = host.replace(/:[0-9]+$/, "").replace(/^\[(.*)\]$/, "$1");
  for (const address of await addressesOf(name)) {
    if (isPublic(address)) continue;
    throw new SandboxError(
      "permission_denied",
      `registry ${quoteUntrusted(name)} is in the network of the service`,
      { hint: "the service's owner can allow it with --registry-mirror" },
    );
  }
}

async function addressesOf(name: string): Promise<readonly string[]> {
  if (isIP(name) !== 0) return [name];
  try {
    return (await lookup(name, { all: true })).map(({ address }) => address);
  } catch (error) {
    const message = `registry ${quoteUntrusted(name)} has no address`;
    throw new SandboxError("unavailable", message, { cause: error });
  }
}

/** Whether an address is one of the internet. */
export function isPublic(address: string): boolean {
  if (!isIPv6(address)) return !OWN_NETWORKS.check(address, "ipv4");
  return PUBLIC_IPV6.check(address, "ipv6") && !CARRIERS.check(address, "ipv6");
}
