/** What a router is made of, and the links of its sandboxes, as text for ip. */

import { addressAt } from "./egress.ts";
import { peerName, UNFINISHED_LINKS, type NetworkChange } from "./namespace.ts";
import {
  lines,
  linkName,
  nameServers,
  ROUTER_SETTINGS,
  routerRules,
  sandboxAddress,
  uplinkAddresses,
  type Uplink,
} from "./router-rules.ts";

/** The link of a sandbox, as itself names it. */
export const SANDBOX_LINK = "eth0";
/**
 * What slirp4netns is given: the smallest network that it takes, of which it is the second address.
 * Each packet costs it a look at all of its connections, hence large ones; of larger ones its window
 * of 128 KiB holds too few, so that both ends wait for each other.
 */
export const USER_UPLINK = {
  link: "wan",
  network: "198.19.0.0/25",
  gateway: "198.19.0.2",
  mtu: 16_384,
} as const;
const USER_ADDRESS = 100;

/** Its own rules and settings, and the addresses that its sandboxes know it by. */
export function routerParts(uplink: Uplink): NetworkChange {
  const own = nameServers(Math.max(1, uplink.resolvers.length));
  return {
    rules: routerRules(uplink),
    links: lines(["link set dev lo up", ...own.map((address) => `addr add ${address}/32 dev lo`)]),
    settings: [...ROUTER_SETTINGS, UNFINISHED_LINKS],
  };
}

/** The link to the internet of a router that leads to its outside. */
export function routerLinks({ slot }: Uplink): string {
  const { inner, outer } = uplinkAddresses(slot);
  return wanLinks(`${inner}/30`, outer);
}

/** The link to the internet of a router that slirp4netns made: its address comes 100 after the network's. */
export function userUplinkLinks(): string {
  const { link, network, gateway, mtu } = USER_UPLINK;
  const [base = "", length = ""] = network.split("/");
  const own = addressAt(base, USER_ADDRESS);
  return `link set dev ${link} mtu ${mtu}\n` + wanLinks(`${own}/${length}`, gateway);
}

function wanLinks(own: string, gateway: string): string {
  return lines([
    "link set dev wan addrgenmode none",
    `addr add ${own} dev wan`,
    "link set dev wan up",
    `route add default via ${gateway}`,
  ]);
}

/**
 * Makes a sandbox's link, down; run in the router. `network` names the sandbox's namespace; packets
 * are as large as those of Ethernet where no size is given.
 */
export function senderLinks(slot: number, network: string, mtu?: number): string {
  const name = linkName(slot);
  const size = mtu === undefined ? "" : ` mtu ${mtu}`;
  return lines([
    `link add name ${name}${size} type veth peer name ${SANDBOX_LINK}${size} netns ${peerName(network)}`,
    `link set dev ${name} addrgenmode none`,
    `link set dev ${name} up`,
    `route add ${sandboxAddress(slot)}/32 dev ${name}`,
  ]);
}

/** Brings the link up on its other end; run in the sandbox's namespace. */
export function sandboxLinks(slot: number, resolverCount: number): string {
  const [gateway, ...others] = nameServers(Math.max(1, resolverCount));
  return lines([
    `link set dev ${SANDBOX_LINK} addrgenmode none`,
    `addr add ${sandboxAddress(slot)}/32 dev ${SANDBOX_LINK}`,
    `link set dev ${SANDBOX_LINK} up`,
    `route add ${gateway} dev ${SANDBOX_LINK} scope link`,
    `route add default via ${gateway}`,
    ...others.map((address) => `route add ${address} via ${gateway}`),
    // Sent past the gateway (SO_DONTROUTE), it would fill the machine's only table of neighbours.
    `route add local default dev ${SANDBOX_LINK} table default`,
  ]);
}
