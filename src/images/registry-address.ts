/** Which addresses a registry of a request may have: none in the network of the service itself. */

import { Resolver } from "node:dns/promises";
import { BlockList, isIP, isIPv6 } from "node:net";
import { networkInterfaces } from "node:os";
import { SandboxError } from "../common/errors.ts";
import { quoteUntrusted } from "../common/untrusted-text.ts";
import { BLOCKED_NETWORKS } from "../engine/network/egress.ts";
import { readOwnAddresses } from "../engine/network/own-addresses.ts";
import type { Source } from "./reference.ts";

/** Names are asked of the name servers: the look-up of the system would hold a thread meanwhile. */
const ASK = { timeout: 3_000, tries: 2 } as const;
/** More addresses than this no client tries. */
const MAX_ADDRESSES = 12;

const PUBLIC_IPV6 = new BlockList();
PUBLIC_IPV6.addSubnet("2000::", 3, "ipv6");
/** Addresses that carry an IPv4 address in them: 6to4 and Teredo. */
const CARRIERS = new BlockList();
CARRIERS.addSubnet("2002::", 16, "ipv6");
CARRIERS.addSubnet("2001::", 32, "ipv6");

const OWN_NETWORKS = new BlockList();
for (const network of BLOCKED_NETWORKS) addNetwork(OWN_NETWORKS, network);

function addNetwork(list: BlockList, network: string): void {
  const [base = "", length = ""] = network.split("/");
  list.addSubnet(base, Number(length), isIPv6(base) ? "ipv6" : "ipv4");
}

/**
 * Refuses a registry at an address that sandboxes may not reach either, unless a rule of
 * `--registry-mirror` leads there: then the owner of the service named it. This is the answer before
 * anything is fetched; what holds for each connection is in `registry-proxy.ts`.
 * @throws SandboxError permission_denied, unavailable for a name without an address
 */
export async function requirePublicRegistry(
  { host, isMirrored }: Source,
  nameServers?: readonly string[],
): Promise<void> {
  if (host === undefined || isMirrored) return;
  const name = host.replace(/:[0-9]+$/, "").replace(/^\[(.*)\]$/, "$1");
  await findPublicAddresses(name, nameServers);
}

/**
 * All addresses of a host, of which each is one of the internet and none this machine's own.
 * @throws SandboxError permission_denied, unavailable for a name without an address
 */
export async function findPublicAddresses(
  name: string,
  servers?: readonly string[],
): Promise<readonly string[]> {
  const addresses = await addressesOf(name, servers);
  const isOwn = await ownAddresses();
  for (const address of addresses) {
    const reached = behindNat64(address);
    if (isPublic(reached) && !isOwn.check(reached, isIPv6(reached) ? "ipv6" : "ipv4")) continue;
    throw new SandboxError(
      "permission_denied",
      `registry ${quoteUntrusted(name)} is in the network of the service`,
      { hint: "the service's owner can allow it with --registry-mirror" },
    );
  }
  return addresses.slice(0, MAX_ADDRESSES);
}

async function addressesOf(
  name: string,
  servers: readonly string[] | undefined,
): Promise<readonly string[]> {
  if (isIP(name) !== 0) return [name];
  if (/(?:^|\.)localhost\.?$/i.test(name)) return ["127.0.0.1"];
  const resolver = new Resolver(ASK);
  if (servers !== undefined) resolver.setServers([...servers]);
  const [four, six] = await Promise.allSettled([resolver.resolve4(name), resolver.resolve6(name)]);
  const found = [four, six].flatMap((each) => (each.status === "fulfilled" ? each.value : []));
  if (found.length > 0) return found;
  const cause: unknown = four.status === "rejected" ? four.reason : undefined;
  throw new SandboxError("unavailable", `registry ${quoteUntrusted(name)} has no address`, {
    cause,
  });
}

/** Also those of the internet: what listens there trusts this machine more than others. */
async function ownAddresses(): Promise<BlockList> {
  const list = new BlockList();
  for (const { address, family } of Object.values(networkInterfaces()).flatMap(
    (each) => each ?? [],
  )) {
    list.addAddress(address, family === "IPv6" ? "ipv6" : "ipv4");
  }
  for (const network of (await readOwnAddresses()) ?? []) addNetwork(list, network);
  return list;
}

/**
 * In networks without IPv4 a name server gives addresses that a gateway translates, by the prefix of
 * RFC 6052: the IPv4 address that is reached. Any other address, and any other spelling, is returned.
 */
export function behindNat64(address: string): string {
  const groups = /^64:ff9b::(?:([0-9a-f]{1,4}):)?([0-9a-f]{1,4})$/.exec(address);
  if (groups === null) return address;
  const [, high = "0", low = "0"] = groups;
  const bytes = Buffer.alloc(4);
  bytes.writeUInt16BE(Number.parseInt(high, 16), 0);
  bytes.writeUInt16BE(Number.parseInt(low, 16), 2);
  return bytes.join(".");
}

/** Whether an address is one of the internet. */
export function isPublic(address: string): boolean {
  if (!isIPv6(address)) return !OWN_NETWORKS.check(address, "ipv4");
  return PUBLIC_IPV6.check(address, "ipv6") && !CARRIERS.check(address, "ipv6");
}
