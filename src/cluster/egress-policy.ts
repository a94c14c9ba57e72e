/**
 * Rules of egress of one sandbox. A label of its Pod selects it for the policy of the chart that allows
 * no egress, in place of that of all others; what the sandbox may reach is added by a NetworkPolicy of
 * its own, which goes with its record.
 */

import { BlockList } from "node:net";
import { step } from "../common/steps.ts";
import { BLOCKED_NETWORKS, toCanonical } from "../engine/network/egress.ts";
import { toEgress } from "../sandboxes/egress.ts";
import type { CreateOptions } from "../sandboxes/sandbox.ts";
import type { ClusterApi } from "./api/api.ts";
import { partLabels } from "./api/objects.ts";
import { missingAbility } from "./missing-abilities.ts";
import { toReference, type PodOwner } from "./pods/pod-spec.ts";

/** On the Pod of a sandbox with rules of its own. */
const EGRESS = "sandbox-mcp.io/egress";
const OWN_EGRESS = "own";
/** On the same Pods: the id of the sandbox. */
const SANDBOX = "sandbox-mcp.io/sandbox";

const EVERYTHING = "0.0.0.0/0";
const DNS_PORT = 53;

/** Labels of the Pod of a sandbox with rules of its own. */
export function labelsOf(sandboxId: string): Readonly<Record<string, string>> {
  return { [EGRESS]: OWN_EGRESS, [SANDBOX]: sandboxId };
}

/** What holds for the rules of all sandboxes; the chart gives its own values. */
export interface EgressSettings {
  /** Networks that no rule opens, besides those that are never reached. */
  readonly denied: readonly string[];
  /** Reached on port 53 by sandboxes that may reach anything. */
  readonly nameServers: readonly string[];
}

/** Canonical networks: what is in `allow`, or not in `deny`, may be reached. */
export interface OwnEgress {
  readonly allow: readonly string[];
  readonly deny: readonly string[];
}

/**
 * Undefined for a sandbox that may reach what all others reach.
 * @throws SandboxError unimplemented for rules that a NetworkPolicy cannot express, and for any
 * where there are no settings; invalid_argument for a faulty entry.
 */
export function planEgress(
  settings: EgressSettings | undefined,
  { network, allowsInternet }: Pick<CreateOptions, "network" | "allowsInternet">,
): OwnEgress | undefined {
  const { allowOut = [], denyOut = [] } = network ?? {};
  if (allowsInternet !== false && allowOut.length + denyOut.length === 0) return undefined;
  if (settings === undefined) throw missingAbility("network");
  const egress = toEgress({ allowsInternet, allowOut, denyOut });
  if (egress === "none") return { allow: [], deny: [EVERYTHING] };
  if (egress.domains.length > 0) throw missingAbility("names");
  return egress.deny.length === 0 ? undefined : egress;
}

/** The policy to create; undefined for a sandbox that reaches nothing. */
export function toNetworkPolicy(
  owner: PodOwner,
  { allow, deny }: OwnEgress,
  settings: EgressSettings,
): unknown {
  const denied = [...BLOCKED_NETWORKS, ...toNetworks(settings.denied)];
  const base = deny.includes(EVERYTHING) ? [] : [toBlock(EVERYTHING, [...denied, ...deny])];
  const opened = allow
    .filter((network) => !denied.some((other) => contains(other, network)))
    .map((network) => toBlock(network, denied));
  const blocks = [...base, ...opened].filter((block) => block !== undefined);
  if (blocks.length === 0) return undefined;
  const servers = settings.nameServers.map((address) => ({ ipBlock: { cidr: `${address}/32` } }));
  const ports = ["UDP", "TCP"].map((protocol) => ({ protocol, port: DNS_PORT }));
  return {
    apiVersion: "networking.k8s.io/v1",
    kind: "NetworkPolicy",
    metadata: {
      name: owner.name,
      labels: partLabels("egress"),
      ownerReferences: [toReference(owner)],
    },
    spec: {
      podSelector: { matchLabels: { [SANDBOX]: owner.name } },
      policyTypes: ["Egress"],
      egress: [{ to: blocks }, ...(servers.length > 0 ? [{ to: servers, ports }] : [])],
    },
  };
}

/** Its exceptions must lie within it; undefined when nothing is left of it. */
function toBlock(cidr: string, denied: readonly string[]) {
  if (denied.includes(cidr)) return undefined;
  const except = [...new Set(denied.filter((other) => contains(cidr, other)))];
  return { ipBlock: { cidr, ...(except.length > 0 && { except }) } };
}

/** Whether all of the second network lies in the first one. */
function contains(network: string, other: string): boolean {
  const [address = "", length = ""] = network.split("/");
  const [otherAddress = "", otherLength = ""] = other.split("/");
  if (Number(otherLength) < Number(length)) return false;
  const list = new BlockList();
  list.addSubnet(address, Number(length), "ipv4");
  return list.check(otherAddress, "ipv4");
}

/** In the one spelling that the API server takes. */
function toNetworks(entries: readonly string[]): readonly string[] {
  const egress = toCanonical({ allow: entries, deny: [], domains: [] });
  return egress === "none" ? [] : egress.allow;
}

/** Creates the policy of a sandbox, before its Pod. */
export async function addPolicy(
  {
    api,
    egress: settings,
  }: { readonly api: ClusterApi; readonly egress?: EgressSettings | undefined },
  owner: PodOwner,
  own: OwnEgress,
): Promise<void> {
  const body = settings && toNetworkPolicy(owner, own, settings);
  if (body !== undefined) await api.call({ method: "POST", path: "networkpolicies", body });
  await step("pod.restricted");
}
