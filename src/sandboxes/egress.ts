/** From what a client asked for to what a container may reach. */

import { isIP, isIPv6 } from "node:net";
import { SandboxError } from "../common/errors.ts";
import type { Egress } from "../engine/engine.ts";
import { toCanonical } from "../engine/network/egress.ts";
import type { SandboxRecord } from "../store/store.ts";
import { networkSchema, type Network } from "../wire/control.ts";

const ALL_TRAFFIC = "0.0.0.0/0";

export interface EgressRequest {
  readonly allowsInternet: boolean | null | undefined;
  readonly allowOut?: Network["allowOut"];
  readonly denyOut?: Network["denyOut"];
}

/**
 * Entries for IPv6 have no effect, since sandboxes have no IPv6.
 * @throws SandboxError invalid_argument for an IPv4 address in IPv6, for what is no name of a
 * host, and for too many entries.
 */
export function toEgress({ allowsInternet, allowOut = [], denyOut = [] }: EgressRequest): Egress {
  const domains = allowOut.filter((entry) => isIP(addressOf(entry)) === 0);
  const networks = allowOut.filter((entry) => !domains.includes(entry));
  const everything = allowsInternet === false ? [ALL_TRAFFIC] : [];
  const deny = [...onlyIpv4(denyOut), ...everything];
  return toCanonical({ allow: onlyIpv4(networks), deny, domains });
}

/** The same for a sandbox as it is on record. @throws SandboxError as {@link toEgress} */
export function egressOf({ network, allowsInternet }: SandboxRecord): Egress {
  return toEgress({ ...(network !== null && networkSchema.parse(network)), allowsInternet });
}

function onlyIpv4(entries: readonly string[]): string[] {
  const hidden = entries.find((entry) => isIPv6(addressOf(entry)) && entry.includes("."));
  if (hidden !== undefined) {
    throw new SandboxError("invalid_argument", `write ${hidden} as an IPv4 network`);
  }
  return entries.filter((entry) => !isIPv6(addressOf(entry)));
}

function addressOf(entry: string): string {
  return entry.split("/")[0] ?? "";
}
