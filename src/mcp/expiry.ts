/** When a sandbox ends by itself, as last heard, without an extra call. */

import type { ToolContext } from "./tool.ts";

type Known = Pick<ToolContext, "service" | "clock">;

/** With less than that left every reply says so, so that nobody is taken by surprise. */
const SHORT_LIFE_MS = 120_000;

/** A fact for the header of a reply; undefined when no reply told the time. */
export function expiryFact(context: Known, sandboxId: string): string | undefined {
  const atMs = context.service.expiresAtMs(sandboxId);
  if (atMs === undefined) return undefined;
  return `sandbox expires in ${secondsUntil(atMs, context)}s`;
}

/** The time as a field of a record. */
export function expiryField(context: Known, sandboxId: string): { readonly expires_at?: string } {
  const atMs = context.service.expiresAtMs(sandboxId);
  return atMs === undefined ? {} : { expires_at: new Date(atMs).toISOString() };
}

/** What a caller must know of a sandbox that ends soon; undefined while there is time. */
export function timeLeft(
  context: Known & Pick<ToolContext, "suggest">,
  sandboxId: string,
): string | undefined {
  const atMs = context.service.expiresAtMs(sandboxId);
  if (atMs === undefined) return undefined;
  const leftMs = atMs - context.clock.now();
  if (leftMs <= 0 || leftMs >= SHORT_LIFE_MS) return undefined;
  const way = context.suggest("set_timeout", "; call set_timeout if it is needed for longer");
  return `sandbox ${sandboxId} ends in ${secondsUntil(atMs, context)}s${way}`;
}

function secondsUntil(atMs: number, { clock }: Known): number {
  return Math.max(0, Math.round((atMs - clock.now()) / 1_000));
}
