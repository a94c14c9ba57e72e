/**
 * The side of a router that lies in the outside: one link, one table of rules, and forwarding. All of
 * it ends with the router.
 */

import { BLOCKED_NETWORKS } from "./egress.ts";
import { withoutTable } from "./forward-guard.ts";
import { forwardingPath, settleForwarding } from "./forwarding.ts";
import { changeNetwork, listTables, peerName, removeLinks, type NetworkPath } from "./namespace.ts";
import { routerLinks } from "./router-links.ts";
import { lines, uplinkAddresses, type Uplink } from "./router-rules.ts";

/** Makes the link into the router's namespace, and its other end; the rules are there before it. */
export async function openUplink(
  outside: NetworkPath,
  uplink: Uplink,
  router: string,
): Promise<void> {
  await changeNetwork(outside, {
    rules: uplinkRules(uplink),
    links: uplinkLinks(uplink.slot, router),
    settings: forwardingOf(uplink),
    peer: { path: router, links: routerLinks(uplink) },
  });
  await settleForwarding(outside);
}

/** Its rules for other name servers than before, and forwarding for the link of the default route of now. */
export async function renewUplink(outside: NetworkPath, uplink: Uplink): Promise<void> {
  const rules = withoutTable(uplinkTable(uplink.slot)) + uplinkRules(uplink);
  await changeNetwork(outside, { rules, settings: forwardingOf(uplink) });
  await settleForwarding(outside);
}

/** Whether the rules that it has outside are there. */
export async function hasUplinkRules(outside: NetworkPath, slot: number): Promise<boolean> {
  return (await listTables(outside)).includes(uplinkTable(slot));
}

/** A change of the machine's own setting of all links changes each of them. */
function forwardingOf({ slot }: Uplink) {
  return [[forwardingPath(uplinkName(slot)), "1"]] as const;
}

/** Takes the link away, then its rules. Idempotent. */
export async function closeUplink(outside: NetworkPath, slot: number): Promise<void> {
  await removeLinks(outside, [uplinkName(slot)], withoutTable(uplinkTable(slot)));
  await settleForwarding(outside);
}

/**
 * What the outside does with a router's packets: nothing of its own answers, only the router's own
 * address goes on, and only answers come back. The rules are a table of our own, which goes whole.
 */
export function uplinkRules({ slot, resolvers }: Uplink): string {
  const link = uplinkName(slot);
  const servers = resolvers.map(
    (address) =>
      `    iifname "${link}" ip daddr ${address} meta l4proto { tcp, udp } th dport 53 accept\n`,
  );
  return `table inet ${uplinkTable(slot)} {
  set never { type ipv4_addr; flags interval; elements = { ${BLOCKED_NETWORKS.join(", ")} }; }
  chain local {
    type filter hook prerouting priority raw; policy accept;
    iifname "${link}" meta nfproto ipv6 drop
    iifname "${link}" fib daddr type != unicast drop
  }
  chain input {
    type filter hook input priority -10; policy accept;
    iifname "${link}" drop
  }
  chain forward {
    type filter hook forward priority -10; policy accept;
    oifname "${link}" ct state established,related accept
    oifname "${link}" drop
    iifname "${link}" ip saddr != ${uplinkAddresses(slot).inner} drop
    iifname "${link}" oifname "sbm*" drop
${servers.join("")}    iifname "${link}" ip daddr @never drop
    # Whoever answers learns from it how large packets may be; nobody else may tell them.
    iifname "${link}" tcp flags syn tcp option maxseg size set rt mtu
  }
  chain source {
    type nat hook postrouting priority srcnat; policy accept;
    ip saddr ${uplinkAddresses(slot).inner} oifname != "${link}" masquerade
  }
}
`;
}

/** Makes the link between router and outside; run outside. */
function uplinkLinks(slot: number, router: string): string {
  const name = uplinkName(slot);
  return lines([
    `link add name ${name} type veth peer name wan netns ${peerName(router)}`,
    `link set dev ${name} addrgenmode none`,
    `addr add ${uplinkAddresses(slot).outer}/30 dev ${name}`,
    `link set dev ${name} up`,
  ]);
}

/** The link of a router, as the outside names it. */
function uplinkName(slot: number): string {
  return `sbm${slot}`;
}

/** The table of a router's link in the outside. */
function uplinkTable(slot: number): string {
  return `sandbox_mcp_${slot}`;
}
