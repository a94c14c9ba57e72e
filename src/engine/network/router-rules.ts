/**
 * The rules of a router, as text for nft: pure functions of numbers and checked networks. A router is
 * a network namespace between sandboxes and the outside.
 */

import type { EgressRules } from "../engine.ts";
import { addressAt, BLOCKED_NETWORKS } from "./egress.ts";

/** Sandboxes are numbered from here by the number of their id range, below 30,000. */
const SANDBOX_BASE = "198.18.0.0";
/** Links between routers and the outside: four addresses each. */
const UPLINK_BASE = "198.19.0.0";
/** The addresses that every sandbox sees as its gateway and as name servers. */
const GATEWAY_BASE = "198.19.255.252";
/** More name servers than this no resolver library asks. */
export const MAX_RESOLVERS = 3;
/** Routers on one machine; the last link's addresses are the gateway's. */
export const MAX_ROUTERS = 16_000;
/** Where the program for rules that name hosts listens, at the gateway's address. */
export const PROXY_PORTS = { names: 5_300, web: 8_000, tls: 8_443 } as const;
/** What a packet is marked with that belongs there, and nowhere else. */
const MARKS = { names: 53, web: 80, tls: 443 } as const;
/** Connections of one sandbox at once: the host's table of connections is shared by all. */
const MAX_CONNECTIONS = 4_096;
/** Addresses by number in a router; a machine has fewer ranges of ids. */
export const MAX_SENDERS = 30_000;

/** What a router knows of the outside. */
export interface Uplink {
  /** The router's number on this machine. */
  readonly slot: number;
  /** IPv4 addresses of name servers, at most three. */
  readonly resolvers: readonly string[];
  /** The outside's own IPv4 addresses or networks: no packet may go there even if the outside lost its rules. */
  readonly hosts: readonly string[];
}

/** The link of a sandbox, as its router names it. */
export function linkName(slot: number): string {
  return `s${slot}`;
}

/** The name servers that a sandbox sees; the router passes each on to a real one. */
export function nameServers(count: number): string[] {
  return Array.from({ length: count }, (_, index) => addressAt(GATEWAY_BASE, index));
}

/** The file that names these servers to programs of a sandbox. */
export function resolverFile(count: number): string {
  return nameServers(count)
    .map((server) => `nameserver ${server}\n`)
    .join("");
}

/** Where a router's own services are, for its sandboxes alone. */
export function gatewayAddress(): string {
  return GATEWAY_BASE;
}

/** The only address that a sandbox may send from. */
export function sandboxAddress(slot: number): string {
  return addressAt(SANDBOX_BASE, slot + 1);
}

/** Both ends of a router's link to the outside. */
export function uplinkAddresses(slot: number) {
  return {
    outer: addressAt(UPLINK_BASE, slot * 4 + 1),
    inner: addressAt(UPLINK_BASE, slot * 4 + 2),
  };
}

/** What is marked goes to the egress program. */
const REDIRECTS = [
  `iifname "s*" meta l4proto { tcp, udp } meta mark ${MARKS.names} dnat ip to ${GATEWAY_BASE}:${PROXY_PORTS.names}`,
  `iifname "s*" meta l4proto tcp meta mark ${MARKS.web} dnat ip to ${GATEWAY_BASE}:${PROXY_PORTS.web}`,
  `iifname "s*" meta l4proto tcp meta mark ${MARKS.tls} dnat ip to ${GATEWAY_BASE}:${PROXY_PORTS.tls}`,
] as const;

/** Ends an open connection: by a drop or an ICMP message its program would wait for a quarter of an hour. */
const RESET = "tcp flags & (syn | rst | ack) == ack reject with tcp reset";

/**
 * The router's own rules, made before any link is. Whatever comes from a sandbox is judged before
 * the router looks at it: an address that is not the link's own, and IPv6, end there.
 */
export function routerRules({ resolvers, hosts }: Uplink): string {
  const servers = nameServers(resolvers.length);
  const pairs = servers.map((server, index) => `${server} : ${resolvers[index]}`);
  const elements = pairs.length === 0 ? "" : `elements = { ${pairs.join(", ")} };`;
  const upstream = resolvers.length === 0 ? "" : `elements = { ${resolvers.join(", ")} };`;
  const never = [...BLOCKED_NETWORKS, ...hosts].join(", ");
  return `table inet sandboxes {
  set never { type ipv4_addr; flags interval; auto-merge; elements = { ${never} }; }
  set upstream { type ipv4_addr; ${upstream} }
  map resolvers { type ipv4_addr : ipv4_addr; ${elements} }
  map senders { type ifname . ipv4_addr : verdict; }
  set connections { type ipv4_addr; flags dynamic; size 65535; }
  set starts { type ipv4_addr; flags dynamic; size 65535; }
  chain names {
    meta l4proto { tcp, udp } th dport 53 accept
    drop
  }
  chain guard {
    type filter hook prerouting priority raw; policy drop;
    iifname { "lo", "wan" } accept
    # It would end here: the outside would not see what ends a connection for this router.
    ip ttl < 2 drop
    iifname . ip saddr vmap @senders
  }
  chain translate {
    type nat hook prerouting priority dstnat; policy accept;
    ${REDIRECTS.join("\n    ")}
    iifname "s*" dnat ip to ip daddr map @resolvers
  }
  chain limits {
    ct state new add @connections { ip saddr ct count over ${MAX_CONNECTIONS} } drop
    # Ended ones of TCP are not counted above, and keep their place for two minutes.
    meta l4proto tcp ct state new add @starts { ip saddr limit rate over 100/second burst ${MAX_CONNECTIONS} packets } drop
  }
  chain input {
    type filter hook input priority filter; policy drop;
    iifname "wan" ct state established,related accept
    iifname "s*" jump limits
    iifname "s*" ip daddr ${GATEWAY_BASE} ct status dnat meta mark { ${Object.values(MARKS).join(", ")} } accept
  }
  chain output {
    type filter hook output priority filter; policy drop;
    oifname "s*" accept
    oifname "wan" ip daddr @upstream meta l4proto { tcp, udp } th dport 53 accept
    oifname "wan" ip daddr @never drop
    oifname "wan" tcp dport { 80, 443 } accept
  }
  chain forward {
    type filter hook forward priority filter; policy drop;
    ct state invalid drop
    # A redirected packet reaches the egress program or nothing: here it is of an older connection.
    meta mark != 0 ${RESET}
    meta mark != 0 drop
    iifname "wan" oifname "s*" ct state established,related accept
    iifname "s*" oifname "wan" jump limits
    iifname "s*" oifname "wan" ct status dnat accept
    iifname "s*" oifname "wan" ip daddr @never drop
    iifname "s*" oifname "wan" accept
  }
  chain source {
    type nat hook postrouting priority srcnat; policy accept;
    oifname "wan" masquerade
  }
}
`;
}

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

/** Kernel settings of a router: it alone forwards, and it knows no IPv6. */
export const ROUTER_SETTINGS = [
  ["/proc/sys/net/ipv4/ip_forward", "1"],
  ["/proc/sys/net/ipv4/conf/all/rp_filter", "1"],
  ["/proc/sys/net/ipv4/conf/default/rp_filter", "1"],
  ["/proc/sys/net/ipv4/conf/all/send_redirects", "0"],
  ["/proc/sys/net/ipv4/conf/default/send_redirects", "0"],
  ["/proc/sys/net/ipv4/conf/all/accept_redirects", "0"],
] as const;

/** A sandbox's rules, whole; the old ones of this number are replaced in the same moment. */
export function senderRules(slot: number, { allow, deny, domains }: EgressRules): string {
  const list = (name: string, networks: readonly string[]) =>
    networks.length === 0
      ? ""
      : `add element inet sandboxes ${name}${slot} { ${networks.join(", ")} }`;
  return lines([
    ...emptySender(slot),
    list("allow", allow),
    list("deny", deny),
    `add rule inet sandboxes to${slot} ip daddr @resolvers goto names${slot}`,
    `add rule inet sandboxes to${slot} ip daddr @never reject with icmp type admin-prohibited`,
    `add rule inet sandboxes to${slot} ip daddr @allow${slot} accept`,
    ...(domains.length === 0 ? [] : redirectRules(slot)),
    `add rule inet sandboxes to${slot} ip daddr @deny${slot} ${RESET}`,
    `add rule inet sandboxes to${slot} ip daddr @deny${slot} reject with icmp type admin-prohibited`,
    `add rule inet sandboxes to${slot} accept`,
    // A name server is a destination like any other, of which one port can be reached.
    `add rule inet sandboxes names${slot} ip daddr @allow${slot} goto names`,
    `add rule inet sandboxes names${slot} ip daddr @deny${slot} reject with icmp type admin-prohibited`,
    `add rule inet sandboxes names${slot} goto names`,
    `add element inet sandboxes senders { ${sender(slot)} }`,
  ]);
}

/** Where hosts are named, the web and the names themselves are judged by what they name. */
function redirectRules(slot: number): string[] {
  return [
    `add rule inet sandboxes to${slot} tcp dport 80 meta mark set ${MARKS.web} accept`,
    `add rule inet sandboxes to${slot} tcp dport 443 meta mark set ${MARKS.tls} accept`,
    `add rule inet sandboxes names${slot} udp dport 53 meta mark set ${MARKS.names} accept`,
    `add rule inet sandboxes names${slot} tcp dport 53 meta mark set ${MARKS.names} accept`,
  ];
}

/** Takes the rules of a sandbox away, whether or not they are there. */
export function senderRemoval(slot: number): string {
  return lines([
    ...emptySender(slot),
    `add element inet sandboxes senders { ${sender(slot)} }`,
    `delete element inet sandboxes senders { ${sender(slot)} }`,
    `delete chain inet sandboxes to${slot}`,
    `delete chain inet sandboxes names${slot}`,
    `delete set inet sandboxes allow${slot}`,
    `delete set inet sandboxes deny${slot}`,
  ]);
}

/** `add` of what is there already does nothing, so the same lines make and empty. */
function emptySender(slot: number): string[] {
  const chains = ["names", "to"].flatMap((name) => [
    `add chain inet sandboxes ${name}${slot}`,
    `flush chain inet sandboxes ${name}${slot}`,
  ]);
  const sets = ["allow", "deny"].flatMap((name) => [
    `add set inet sandboxes ${name}${slot} { type ipv4_addr; flags interval; auto-merge; }`,
    `flush set inet sandboxes ${name}${slot}`,
  ]);
  return [...chains, ...sets];
}

function sender(slot: number): string {
  return `"${linkName(slot)}" . ${sandboxAddress(slot)} : jump to${slot}`;
}

/** Commands of one batch; empty ones are left out. */
export function lines(entries: readonly string[]): string {
  return `${entries.filter((entry) => entry !== "").join("\n")}\n`;
}
