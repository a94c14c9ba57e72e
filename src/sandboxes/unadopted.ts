/** Sandboxes that an earlier process left and that are not adopted yet: what is known of them meanwhile. */

import { SandboxError } from "../common/errors.ts";
import type { SandboxRecord } from "../store/store.ts";
import type { Registry, Services } from "./context.ts";
import { isOver } from "./reclaim/lost-reason.ts";

export interface UnadoptedSandbox {
  /** Paused where its guardian has frozen it by now. */
  readonly record: SandboxRecord;
  readonly fault: SandboxError;
}

/** Those of all teams whose time to live is not over. */
export function unadoptedSandboxes(context: Services & Registry): UnadoptedSandbox[] {
  return [...context.unadopted.keys()].flatMap((id) => findUnadopted(context, id) ?? []);
}

export function findUnadopted(
  { store, clock, unadopted }: Services & Registry,
  sandboxId: string,
): UnadoptedSandbox | undefined {
  const left = unadopted.get(sandboxId);
  const record = left && store.sandboxes.get(sandboxId);
  const nowMs = clock.now();
  if (record === undefined || isOver(record, nowMs)) return undefined;
  const state = record.state === "running" && record.endAtMs <= nowMs ? "paused" : record.state;
  return { record: { ...record, state }, fault: notAdopted(sandboxId, left?.fault) };
}

export function notAdopted(sandboxId: string, fault: unknown): SandboxError {
  const told = isForClients(fault) ? fault : undefined;
  const reason = told === undefined ? "" : `: ${told.message}`;
  const message = `sandbox ${sandboxId} was left by an earlier start of the service and is not adopted yet${reason}`;
  const remedy = told?.hint === undefined ? "" : `${told.hint}; `;
  return new SandboxError("unavailable", message, {
    cause: fault,
    hint: `${remedy}the service tries again at least once a minute`,
  });
}

/** Other faults have no words for clients. */
function isForClients(fault: unknown): fault is SandboxError {
  return fault instanceof SandboxError && fault.code !== "internal";
}
