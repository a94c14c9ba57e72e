/** Replaces the egress rules of a running sandbox; who may come in stays as it was created. */

import { SandboxError } from "../common/errors.ts";
import { sandboxMissing } from "../wire/messages.ts";
import type { SandboxEntry, Services, Tenant, Registry } from "./context.ts";
import { toEgress, type EgressRequest } from "./egress.ts";
import { inTransition, requireNotEnding, updateRecord, whenIdle } from "./registry.ts";

/**
 * Applies the rules, also to connections that exist, and stores them durably.
 * @throws SandboxError not_found when unknown or paused, failed_precondition during a change,
 * invalid_argument as toEgress.
 */
export async function updateNetwork(
  context: Services & Tenant & Registry,
  sandboxId: string,
  rules: EgressRequest,
): Promise<void> {
  const entry = requireNotEnding(context, sandboxId);
  if (entry.phase === "pausing" || entry.phase === "snapshotting") {
    throw inTransition(sandboxId, entry.phase);
  }
  await whenIdle(entry, async () => {
    if (isEnding(entry)) throw inTransition(sandboxId, "killing");
    if (entry.phase !== "running") {
      throw new SandboxError("not_found", sandboxMissing(sandboxId));
    }
    const { network, allowsInternet } = entry.record;
    const {
      allowOut: _allowed,
      denyOut: _denied,
      dnsServers: _servers,
      ...ingress
    } = network ?? {};
    const wanted = rules.allowsInternet ?? allowsInternet;
    const egress = toEgress({ ...rules, allowsInternet: wanted });
    await entry.container.setEgress(egress);
    // Its end does not wait for this; a row that is gone must not come back.
    if (isEnding(entry)) throw inTransition(sandboxId, "killing");
    updateRecord(context, entry, {
      network: {
        ...ingress,
        ...(rules.allowOut !== undefined && { allowOut: rules.allowOut }),
        ...(rules.denyOut !== undefined && { denyOut: rules.denyOut }),
        ...(rules.dnsServers !== undefined && { dnsServers: rules.dnsServers }),
      },
      allowsInternet: entry.container.network === "loopback" ? false : wanted,
    });
  });
}

function isEnding(entry: SandboxEntry): boolean {
  return entry.ending !== undefined;
}
