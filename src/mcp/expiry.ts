/** When a sandbox ends by itself, as last heard, without an extra call. */

import type { ToolContext } from "./tool.ts";

type Known = Pick<ToolContext, "service" | "clock">;

/** A fact for the header of a reply; undefined when no reply told the time. */
export function expiryFact(context: Known, sandboxId: string): string | undefined {
  const atMs = context.service.expiresAtMs(sandboxId);
  if (atMs === undefined) return undefined;
  const seconds = Math.max(0, Math.round((atMs - context.clock.now()) / 1_000));
  return `sandbox expires in ${seconds}s`;
}

/** The time as a field of a record. */
export function expiryField(context: Known, sandboxId: string): { readonly expires_at?: string } {
  const atMs = context.service.expiresAtMs(sandboxId);
  return atMs === undefined ? {} : { expires_at: new Date(atMs).toISOString() };
}
