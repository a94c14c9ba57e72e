/** The egress rules of a request: their checks, and what a container may reach under them. */

import { isIP, isIPv4, isIPv6 } from "node:net";
import { SandboxError } from "../common/errors.ts";
import type { Egress } from "../engine/engine.ts";
import { toCanonical } from "../engine/network/egress.ts";
import type { SandboxRecord } from "../store/store.ts";
import { MAX_NETWORK_ENTRIES } from "../wire/bounds.ts";
import { networkSchema, type Network } from "../wire/control.ts";

const ALL_TRAFFIC = "0.0.0.0/0";
/** An address of zeros, in every spelling. */
const ZEROS_PATTERN = /^[0:.]+$/;

export interface EgressRequest {
  /** In an update, undefined keeps what is stored. */
  readonly allowsInternet: boolean | null | undefined;
  /** Undefined for none. */
  readonly allowOut?: Network["allowOut"];
  readonly denyOut?: Network["denyOut"];
  readonly dnsServers?: Network["dnsServers"];
}

/**
 * Checks the entries of a request.
 * @throws SandboxError invalid_argument, with the text of the wire, for the first faulty one.
 */
export function checkEgress(request: Pick<EgressRequest, "allowOut" | "denyOut">): void {
  const { allowOut: allowed = [], denyOut: denied = [] } = request;
  const amount = allowed.length + denied.length;
  if (amount > MAX_NETWORK_ENTRIES) {
    refuse(
      `allowOut and denyOut can have at most ${MAX_NETWORK_ENTRIES} entries together, not ${amount}`,
    );
  }
  for (const entry of denied) if (!isAddressOrCidr(entry)) refuse(`invalid denied CIDR ${entry}`);
  for (const entry of allowed) {
    if (isUnspecified(entry)) refuse(`invalid allowed address ${entry}`);
  }
  const hasDomain = allowed.some((entry) => !isAddressOrCidr(entry));
  if (hasDomain && !denied.includes(ALL_TRAFFIC)) {
    refuse(
      "When specifying allowed domains in allow out, you must include 'ALL_TRAFFIC' in deny out to block all other traffic.",
    );
  }
}

function isUnspecified(entry: string): boolean {
  return entry !== ALL_TRAFFIC && isAddressOrCidr(entry) && ZEROS_PATTERN.test(addressOf(entry));
}

function isAddressOrCidr(entry: string): boolean {
  const [address = "", prefix, ...rest] = entry.split("/");
  if (rest.length > 0 || isIP(address) === 0) return false;
  if (prefix === undefined) return true;
  return /^[0-9]{1,3}$/.test(prefix) && Number(prefix) <= (isIPv4(address) ? 32 : 128);
}

/**
 * Entries for IPv6 have no effect, since sandboxes have no IPv6.
 * @throws SandboxError invalid_argument for an IPv4 address in IPv6, for what is no name of a
 * host, and for too many entries.
 */
export function toEgress(request: EgressRequest): Egress {
  const { allowsInternet, allowOut = [], denyOut = [], dnsServers = [] } = request;
  const domains = allowOut.filter((entry) => isIP(addressOf(entry)) === 0);
  const networks = allowOut.filter((entry) => !domains.includes(entry));
  const everything = allowsInternet === false ? [ALL_TRAFFIC] : [];
  const deny = [...onlyIpv4(denyOut), ...everything];
  // Names are answered here without them; programs that ask them by address may do so.
  const servers = domains.length > 0 ? dnsServers : [];
  return toCanonical({ allow: [...onlyIpv4(networks), ...servers], deny, domains });
}

/** The same for a sandbox as it is on record. @throws SandboxError as {@link toEgress} */
export function egressOf({ network, allowsInternet }: SandboxRecord): Egress {
  return toEgress({ ...(network !== null && networkSchema.parse(network)), allowsInternet });
}

function onlyIpv4(entries: readonly string[]): string[] {
  const hidden = entries.find((entry) => isIPv6(addressOf(entry)) && entry.includes("."));
  if (hidden !== undefined) {
    refuse(`write ${hidden} as an IPv4 network`);
  }
  return entries.filter((entry) => !isIPv6(addressOf(entry)));
}

function addressOf(entry: string): string {
  return entry.split("/")[0] ?? "";
}

function refuse(message: string): never {
  throw new SandboxError("invalid_argument", message);
}
