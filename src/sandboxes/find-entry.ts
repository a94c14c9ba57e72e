/** Finds a sandbox of a team in the registry, or tells why it is not there. */

import { SandboxError } from "../common/errors.ts";
import { sandboxMissing } from "../wire/messages.ts";
import type { Registry, SandboxEntry, Tenant } from "./context.ts";
import { notAdopted } from "./unadopted.ts";

/** A sandbox of the team; undefined for one of another, as for one that never was. */
export function findEntry(
  { entries, team }: Tenant & Registry,
  sandboxId: string,
): SandboxEntry | undefined {
  const entry = entries.get(sandboxId);
  return entry?.record.team === team ? entry : undefined;
}

/**
 * A sandbox of the team, which may be about to end.
 * @throws SandboxError not_found when it never was or is over, unavailable when it is not adopted yet.
 */
export function requireKnownEntry(context: Tenant & Registry, sandboxId: string): SandboxEntry {
  const entry = findEntry(context, sandboxId);
  if (entry !== undefined) return entry;
  const left = context.unadopted.get(sandboxId);
  if (left?.team !== context.team) {
    throw new SandboxError("not_found", sandboxMissing(sandboxId));
  }
  throw notAdopted(sandboxId, left.fault);
}
