/** What a team may ask of the daemons of its sandboxes; one that is paused has none. */

import type { TeamSandboxes } from "../../sandboxes/team-sandboxes.ts";
import type { ClusterContext } from "../context.ts";
import { findKnown, phaseOf, requireKnown } from "../find.ts";
import type { KnownSandbox } from "../records.ts";

export function inspectOperations(
  context: ClusterContext,
  team: string,
): Pick<TeamSandboxes, "logs" | "metrics" | "latestMetric" | "measure"> {
  const { inspector } = context;
  return {
    async logs(query) {
      const stored = requireKnown(context, team, query.sandboxId);
      return runs(stored) ? inspector.logs(stored, query) : [];
    },
    async metrics(sandboxId, { startMs = 0, endMs = Number.POSITIVE_INFINITY }) {
      const stored = requireKnown(context, team, sandboxId);
      const nowMs = context.clock.now();
      if (!runs(stored)) return [];
      return startMs <= nowMs && nowMs <= endMs ? [await inspector.measure(stored)] : [];
    },
    async latestMetric(sandboxId) {
      const stored = findKnown(context, team, sandboxId);
      // One of several that does not answer takes nothing from the others.
      return stored && runs(stored) ? inspector.measure(stored).catch(() => undefined) : undefined;
    },
    async measure(sandboxId) {
      const stored = requireKnown(context, team, sandboxId);
      return runs(stored) ? inspector.measure(stored) : undefined;
    },
  };
}

/** Whether can be asked. */
function runs(stored: KnownSandbox): boolean {
  return phaseOf(stored) === "running";
}
