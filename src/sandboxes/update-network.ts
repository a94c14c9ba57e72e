/** Replaces the egress rules of a running sandbox; who may come in stays as it was created. */

import { createGate, type Gate } from "../common/concurrency.ts";
import { SandboxError } from "../common/errors.ts";
import { sandboxMissing } from "../wire/messages.ts";
import type { SandboxEntry, Services, Tenant, Registry } from "./context.ts";
import { egressOf, toEgress, type EgressRequest } from "./egress.ts";
import { inTransition, requireNotEnding, updateRecord, whenIdle } from "./registry.ts";

/** One change of rules at a time: one that fails sets those of before, which undid a later one. */
const turns = new WeakMap<SandboxEntry, Gate>();

/**
 * Applies the rules, also to connections that exist, and stores them durably; after a fault those of
 * before hold.
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
  const gate = turns.get(entry) ?? createGate(1);
  turns.set(entry, gate);
  await gate.run(() => whenIdle(entry, () => replaceRules(context, entry, rules)));
}

async function replaceRules(
  context: Services & Tenant & Registry,
  entry: SandboxEntry,
  rules: EgressRequest,
): Promise<void> {
  const { sandboxId } = entry.record;
  if (isEnding(entry)) throw inTransition(sandboxId, "killing");
  if (entry.phase !== "running") {
    throw new SandboxError("not_found", sandboxMissing(sandboxId));
  }
  const { network, allowsInternet } = entry.record;
  const { allowOut: _allowed, denyOut: _denied, dnsServers: _servers, ...ingress } = network ?? {};
  const wanted = rules.allowsInternet ?? allowsInternet;
  const egress = toEgress({ ...rules, allowsInternet: wanted });
  // Should the service die from here on, its next start sets the rules that are on record.
  updateRecord(context, entry, { owesEgress: true });
  try {
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
      owesEgress: false,
    });
  } catch (error) {
    await restoreRules(context, entry);
    throw error;
  }
}

/** After a change that failed; where they cannot be set now, the next start of the service does it. */
async function restoreRules(context: Services, entry: SandboxEntry): Promise<void> {
  if (isEnding(entry)) return;
  const { sandboxId } = entry.record;
  const facts = { op: "sandbox.network", sandboxId };
  try {
    await entry.container.setEgress(egressOf(entry.record));
  } catch (error) {
    context.log.error({ ...facts, err: error }, "egress rules of before were not restored");
    return;
  }
  try {
    if (!isEnding(entry)) updateRecord(context, entry, { owesEgress: false });
  } catch (error) {
    context.log.warn({ ...facts, err: error }, "restored egress rules are set again at a start");
  }
}

function isEnding(entry: SandboxEntry): boolean {
  return entry.ending !== undefined;
}
