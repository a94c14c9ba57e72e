/** What becomes of the sandboxes of a registry that closes. */

import { createGate } from "../common/concurrency.ts";
import type { Folders, History, Registry, Services } from "./context.ts";
import { endEntry } from "./registry.ts";

/** Sandboxes ended at once when the registry closes; each is a few processes and mounts. */
const ENDS_AT_ONCE = 8;

/** Ends every sandbox, or leaves them running for the next start. */
export async function closeEntries(
  context: Services & Folders & History & Registry,
  onExit: "kill" | "leave",
): Promise<void> {
  const entries = [...context.entries.values()];
  if (onExit === "leave") {
    for (const entry of entries) {
      entry.run?.end();
      entry.follower?.[Symbol.dispose]();
    }
    return;
  }
  const gate = createGate(ENDS_AT_ONCE);
  const ends = entries.map((entry) => gate.run(() => endEntry(context, entry, "service end")));
  for (const end of await Promise.allSettled(ends)) {
    if (end.status === "rejected") {
      context.log.error({ op: "sandbox.end", err: end.reason }, "sandbox left traces");
    }
  }
}
