/** Replaces the egress rules of a running sandbox; who may come in stays as it was created. */

import { SandboxError } from "../common/errors.ts";
import type { Network } from "../wire/control.ts";
import { sandboxMissing } from "../wire/messages.ts";
import { inTransition, requireLiving, updateRecord, whenSettled, type Domain } from "./domain.ts";

export interface EgressRules {
  /** Undefined clears the list. */
  readonly allowOut: Network["allowOut"];
  readonly denyOut: Network["denyOut"];
  /** Undefined keeps what is stored. */
  readonly allowsInternet: boolean | undefined;
}

/**
 * Stores the rules, durably; no sandbox has a way out that they could narrow.
 * @throws SandboxError not_found when unknown or paused, failed_precondition during a change.
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
  await whenSettled(member, () => {
    if (member.ending !== undefined) throw inTransition(sandboxId, "killing");
    if (member.phase !== "running") {
      throw new SandboxError("not_found", sandboxMissing(sandboxId));
    }
    const { network, allowsInternet } = member.record;
    const { allowOut: _allowed, denyOut: _denied, ...ingress } = network ?? {};
    updateRecord(domain, member, {
      network: {
        ...ingress,
        ...(rules.allowOut !== undefined && { allowOut: rules.allowOut }),
        ...(rules.denyOut !== undefined && { denyOut: rules.denyOut }),
      },
      allowsInternet: rules.allowsInternet ?? allowsInternet,
    });
  });
}
