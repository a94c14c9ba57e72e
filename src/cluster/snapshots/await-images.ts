/** Waits for images of one sandbox that are being made: a daemon tells its changes to one front at a time. */

import { anySignal } from "../../common/any-signal.ts";
import { SandboxError } from "../../common/errors.ts";
import { signalAfter } from "../../common/late-signal.ts";
import type { ClusterContext } from "../context.ts";
import type { StoredSnapshot } from "./records.ts";

/** Those of living fronts other than this one. @throws SandboxError unavailable after the time */
export async function awaitImages(
  { snapshots, fronts, closing }: ClusterContext,
  sandboxId: string,
  waitMs: number,
): Promise<void> {
  const late = signalAfter(waitMs);
  const signal = anySignal([closing, late]);
  for (const { metadata, snapshot } of snapshots?.items.values() ?? []) {
    if (snapshot?.sourceSandboxId !== sandboxId || snapshot.owner === fronts.name) continue;
    if (!fronts.isAlive(snapshot.owner)) continue;
    try {
      await snapshots?.until(metadata.name, findEnd, signal);
    } catch (error) {
      if (!late.aborted) throw error;
      const message = "another image of the sandbox is being made";
      throw new SandboxError("unavailable", message, { cause: error });
    }
  }
}

function findEnd(stored: StoredSnapshot | undefined): string | undefined {
  return stored?.snapshot?.state === "pending" ? undefined : "over";
}
