/** The clean-up of every start, beside the first calls: what dead instances left. */

import type { CleanUpFailure } from "../../common/clean-up.ts";
import { asOperation } from "../../common/operation.ts";
import { quoteUntrusted } from "../../common/untrusted-text.ts";
import type { Services, Tenant } from "../context.ts";
import { reclaim } from "./reclaim.ts";

/** Resolves when all is removed that can be; never rejects. */
export async function reclaimAtStart(context: Services & Tenant, home: string): Promise<void> {
  const { engine, store, log, owner, closing: signal } = context;
  const onFailure = ({ kind, name, error }: CleanUpFailure) => {
    // What a stop cuts short is left to the next start.
    const level = signal.aborted ? "info" : "error";
    log[level]({ op: "reclaim", kind, name: quoteUntrusted(name), err: error }, "leftover stays");
  };
  const options = { engine, store, home, self: owner, takesKept: false, onFailure, signal };
  try {
    const reclaimed = await asOperation("reclaim", () => reclaim(options));
    if (reclaimed.length > 0) log.warn({ op: "reclaim", reclaimed }, "removed leftovers");
  } catch (error) {
    if (signal.aborted) return;
    log.error({ op: "reclaim", err: error }, "leftovers could not be removed");
  }
}
