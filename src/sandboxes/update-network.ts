/** Replaces the egress rules of a running sandbox; who may come in stays as it was created. */

import { SandboxError } from "../common/errors.ts";
import type { Network } from "../wire/control.ts";
import { sandboxMissing } from "../wire/messages.ts";
import {
  inTransition,
  requireLiving,
  updateRecord,
  whenSettled,
  type Domain,
  type Member,
} from "./domain.ts";
import { toEgress } from "./egress.ts";

export interface EgressRules {
  /** Undefined clears the list. */
  readonly allowOut: Network["allowOut"];
  readonly denyOut: Network["denyOut"];
  /** Undefined keeps what is stored. */
  readonly allowsInternet: boolean | undefined;
}

/**
 * Applies the rules, also to connections that exist, and stores them durably.
 * @throws SandboxError not_found when unknown or paused, failed_precondition during a change,
 * invalid_argument as toEgress.
 */
export async function updateNetwork(
  domain: Domain,
  sandboxId: string,
  rules: EgressRules,
): Promise<void> {
  const member = requireLiving(domain, sandboxId);
  if (member.phase === "pausing" || member.phase === "snapshotting") {
    throw inTransition(sandboxId, member.phase);
  }
  await whenSettled(member, async () => {
    if (isEnding(member)) throw inTransition(sandboxId, "killing");
    if (member.phase !== "running") {
      throw new SandboxError("not_found", sandboxMissing(sandboxId));
    }
    const { network, allowsInternet } = member.record;
    const { allowOut: _allowed, denyOut: _denied, ...ingress } = network ?? {};
    const wanted = rules.allowsInternet ?? allowsInternet;
    const egress = toEgress({ ...rules, allowsInternet: wanted });
    await member.container.setEgress(egress);
    // Its end does not wait for this; a row that is gone must not come back.
    if (isEnding(member)) throw inTransition(sandboxId, "killing");
    updateRecord(domain, member, {
      network: {
        ...ingress,
        ...(rules.allowOut !== undefined && { allowOut: rules.allowOut }),
        ...(rules.denyOut !== undefined && { denyOut: rules.denyOut }),
      },
      allowsInternet: member.container.network === "loopback" ? false : wanted,
    });
  });
}

function isEnding(member: Member): boolean {
  return member.ending !== undefined;
}
