/** What a container may reach: lists of networks, brought into one spelling before anything uses them. */

import { isIPv4 } from "node:net";
import { SandboxError } from "../../common/errors.ts";
import { toNamePattern } from "../../egress/host-names.ts";
import type { Egress } from "../engine.ts";

/** More entries than are written by hand; each one is memory of the kernel. */
const MAX_ENTRIES = 1_000;
const ADDRESS_BITS = 32;
const EVERYTHING = "0.0.0.0/0";

/**
 * Never reached, whatever a rule says: the host and its neighbours, other sandboxes, metadata
 * services, and everything that is no single host of the internet (RFC 6890). Metadata services of
 * other clouds are within these networks: 100.100.100.200, 169.254.169.254, 192.0.0.192. The chart
 * for Kubernetes has the same list (`network.yaml`), which a test compares.
 */
export const BLOCKED_NETWORKS = [
  "0.0.0.0/8",
  "10.0.0.0/8",
  "100.64.0.0/10",
  "127.0.0.0/8",
  // What Azure's machines ask for their own settings, at an address that looks like one of the internet.
  "168.63.129.16/32",
  "169.254.0.0/16",
  "172.16.0.0/12",
  "192.0.0.0/24",
  "192.168.0.0/16",
  // Links between routers and sandboxes are numbered from here.
  "198.18.0.0/15",
  // Multicast, reserved and broadcast.
  "224.0.0.0/3",
] as const;

/**
 * The same rules with canonical networks; rules that let nothing through become `none`.
 * @throws SandboxError invalid_argument for what is no IPv4 network or name, and for too many.
 */
export function toCanonical(egress: Egress): Egress {
  if (egress === "none") return egress;
  const count = egress.allow.length + egress.deny.length + egress.domains.length;
  if (count > MAX_ENTRIES) {
    throw new SandboxError("invalid_argument", `${count} network entries, at most ${MAX_ENTRIES}`);
  }
  const allow = egress.allow.map((entry) => toNetwork(entry));
  const deny = egress.deny.map((entry) => toNetwork(entry));
  const domains = egress.domains.map((entry) => toDomain(entry));
  const letsThrough = allow.length + domains.length > 0 || !deny.includes(EVERYTHING);
  return letsThrough ? { allow, deny, domains } : "none";
}

function toDomain(entry: string): string {
  const pattern = toNamePattern(entry);
  if (pattern !== undefined) return pattern;
  throw new SandboxError("invalid_argument", `not a name of a host: ${JSON.stringify(entry)}`);
}

/** `192.0.2.77/24` and `192.0.2.0/24` name one network: the second is its only spelling here. */
function toNetwork(entry: string): string {
  const [address = "", length = String(ADDRESS_BITS), ...rest] = entry.split("/");
  const isLength = /^[0-9]{1,3}$/.test(length) && Number(length) <= ADDRESS_BITS;
  if (!isIPv4(address) || !isLength || rest.length > 0) {
    throw new SandboxError("invalid_argument", `not an IPv4 network: ${JSON.stringify(entry)}`);
  }
  const bits = Number(length);
  const size = 2 ** (ADDRESS_BITS - bits);
  return `${formatAddress(Math.floor(parseAddress(address) / size) * size)}/${bits}`;
}

/** The address `offset` above the first one of a network that begins at `base`. */
export function addressAt(base: string, offset: number): string {
  return formatAddress(parseAddress(base) + offset);
}

function parseAddress(address: string): number {
  return address.split(".").reduce((value, octet) => value * 256 + Number(octet), 0);
}

function formatAddress(value: number): string {
  return [24, 16, 8, 0].map((shift) => Math.floor(value / 2 ** shift) % 256).join(".");
}
