/** Traffic for a sandbox that is paused: it is resumed where its create asked for that. */

import { SandboxError } from "../../common/errors.ts";
import {
  mayWake,
  wokenSeconds,
  type StoppedSandbox,
  type WakeRequest,
} from "../../sandboxes/pause/wake.ts";
import { MESSAGES } from "../../wire/messages.ts";
import type { ClusterContext } from "../context.ts";
import { isKnown, type KnownSandbox, type StoredSandbox } from "../records.ts";
import { connectPod } from "./resume.ts";

/**
 * Resumes it unless it runs; one that is not to be woken stays as it is.
 * @throws SandboxError permission_denied without the right token, failed_precondition when it does not
 * come to rest, resource_exhausted when too many run, not_found when it cannot be started
 */
export async function wakePod(context: ClusterContext, request: WakeRequest): Promise<void> {
  const stored = context.records.items.get(request.sandboxId);
  if (!isWakeable(stored)) return;
  const { record } = stored;
  if (!mayWake(context.cluster, stored, request)) {
    throw new SandboxError("permission_denied", MESSAGES.wakeRefused);
  }
  const { team, sandboxId } = record;
  await connectPod(context, { team, sandboxId }, { timeoutSeconds: wokenSeconds(stored) });
}

export function stoppedPods({ records, cluster }: ClusterContext): StoppedSandbox[] {
  return [...records.items.values()].filter(isStopped).map((stored) => {
    const { sandboxId, isSecured } = stored.record;
    const accessToken = isSecured ? cluster.secrets.accessToken(sandboxId) : undefined;
    return { sandboxId, accessToken, isWakeable: isWakeable(stored) };
  });
}

function isWakeable(stored: StoredSandbox | undefined): stored is KnownSandbox {
  return isStopped(stored) && stored.record.resumesOnTraffic;
}

function isStopped(stored: StoredSandbox | undefined): stored is KnownSandbox {
  if (!isKnown(stored)) return false;
  return stored.record.state === "paused" || stored.change?.kind === "pausing";
}
