/** What a router does for one container, whichever kind of router it is: its rules and its link. */

import type { EgressRules } from "../engine.ts";
import { changeNetwork, listLinks, removeLinks } from "./namespace.ts";
import { SANDBOX_LINK, sandboxLinks, senderLinks } from "./router-links.ts";
import { linkName, senderRemoval, senderRules } from "./router-rules.ts";

export interface Sender {
  /** File of the router's namespace. */
  readonly router: string;
  readonly slot: number;
  /** File of the container's namespace. */
  readonly network: string;
  /** Of packets of its link; that of Ethernet where none is given. */
  readonly mtu?: number;
  /** How many name servers it sees. */
  readonly resolverCount: number;
}

/** Gives a container these rules, and its link if it has none yet. The rules are there first. */
export async function connectSender(sender: Sender, rules: EgressRules): Promise<void> {
  const { router, slot, network, mtu, resolverCount } = sender;
  const name = linkName(slot);
  const change = {
    rules: senderRules(slot, rules),
    unless: name,
    links: senderLinks(slot, network, mtu),
    peer: { path: network, links: sandboxLinks(slot, resolverCount) },
  };
  try {
    await changeNetwork(router, change);
  } catch (error) {
    // The kernel takes the link to a router that has ended, but not at once: its name is taken until then.
    const isTaken = async () => (await listLinks(network)).includes(SANDBOX_LINK);
    if ((await listLinks(router)).includes(name) || !(await isTaken())) throw error;
    await removeLinks(network, [SANDBOX_LINK], "");
    await changeNetwork(router, change);
  }
}

/** Takes links of containers away, then their rules. Says whether the router has others. */
export async function removeSenders(router: string, slots: readonly number[]): Promise<boolean> {
  const names = slots.map((slot) => linkName(slot));
  const rules = slots.map((slot) => senderRemoval(slot)).join("");
  return (await removeLinks(router, names, rules)).some((name) => /^s\d+$/.test(name));
}
