/** What becomes of the sandboxes of a registry that closes. */

import { createGate } from "../common/concurrency.ts";
import type { Folders, History, Registry, Services, Tenant } from "./context.ts";
import { discard } from "./discard.ts";
import { endEntry } from "./registry.ts";

/** Sandboxes ended at once when the registry closes; each is a few processes and mounts. */
const ENDS_AT_ONCE = 8;

/** Ends every sandbox, or leaves them running for the next start. */
export async function closeEntries(
  context: Services & Tenant & Folders & History & Registry,
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
  // Rows without an entry: of sandboxes that could not be adopted, or not be removed.
  const others = context.store.sandboxes
    .ofOwner(context.owner)
    .filter(({ sandboxId }) => !context.entries.has(sandboxId));
  const gate = createGate(ENDS_AT_ONCE);
  const ends = [
    ...entries.map((entry) => gate.run(() => endEntry(context, entry, "service end"))),
    ...others.map((record) => gate.run(() => discard(context, record, "service end"))),
  ];
  for (const end of await Promise.allSettled(ends)) {
    if (end.status === "rejected") {
      context.log.error({ op: "sandbox.end", err: end.reason }, "sandbox left traces");
    }
  }
}
