/** Forks: Pods of one image that has the files of a running sandbox. The image goes with the last of them. */

import { createGate } from "../../common/concurrency.ts";
import { step } from "../../common/steps.ts";
import { cleanUpOrRetry } from "../../sandboxes/retry-cleanup.ts";
import { optionsOf, type CreateOptions } from "../../sandboxes/sandbox.ts";
import {
  checkForkOptions,
  requireForkAwaited,
  type ForkOptions,
} from "../../sandboxes/snapshots/fork-rules.ts";
import type { ForkResult } from "../../sandboxes/snapshots/fork-sandbox.ts";
import { MAX_RUN_SECONDS } from "../../sandboxes/timeout.ts";
import type { SandboxRecord } from "../../store/store.ts";
import type { ClusterContext } from "../context.ts";
import { setTimeoutOf } from "../expiry.ts";
import { START_TIMEOUT_MS } from "../pods/boot-pod.ts";
import { createPodSandbox, describe } from "../pods/create-pod.ts";
import { endSandbox } from "../pods/end-pod.ts";
import type { KnownSandbox } from "../records.ts";
import { toFound } from "./snapshots.ts";
import { releaseSnapshot, takeSnapshot } from "./take.ts";

const STARTS_AT_ONCE = 4;
const MS_PER_SECOND = 1_000;

/**
 * Copies the files of a running sandbox once and starts `count` sandboxes on the copy.
 * @throws SandboxError invalid_argument for a bad count, as `takeSnapshot`; canceled when the signal fired
 */
export async function forkPod(
  context: ClusterContext,
  { team, stored }: { readonly team: string; readonly stored: KnownSandbox },
  fork: ForkOptions,
): Promise<ForkResult[]> {
  const { count, timeoutSeconds, signal } = fork;
  checkForkOptions(fork, context.quota.sharesOf(team).limit);
  const snapshot = await takeSnapshot(context, { team, stored, kind: "fork", signal });
  try {
    await step("fork.imaged");
    requireForkAwaited(fork);
    const template = toFound(snapshot, context.limits);
    // The client learns of all at once: until then none may end.
    const startsMs = Math.ceil(count / STARTS_AT_ONCE) * START_TIMEOUT_MS;
    const longSeconds = Math.min(timeoutSeconds + startsMs / MS_PER_SECOND, MAX_RUN_SECONDS);
    const options = toOptions(context, stored.record, longSeconds);
    const gate = createGate(STARTS_AT_ONCE);
    const starts = Array.from({ length: count }, async () =>
      gate.run(async () => createPodSandbox(context, { team, options, template }, signal)),
    );
    const results = await Promise.allSettled(starts);
    if (signal.aborted) {
      const made = results.flatMap((result) => (result.status === "fulfilled" ? result.value : []));
      await Promise.all(made.map(async ({ sandboxId }) => endUnawaited(context, sandboxId)));
    }
    requireForkAwaited(fork);
    const forks = results.map(async (result): Promise<ForkResult> => {
      if (result.status === "rejected") return { error: result.reason };
      const { sandboxId } = result.value;
      try {
        const timed = await setTimeoutOf(context, { team, sandboxId }, timeoutSeconds);
        return { sandbox: describe(context, timed) };
      } catch (error) {
        // It runs, for longer than it should.
        context.log.warn({ op: "sandbox.fork", sandboxId, err: error }, "fork keeps its long time");
        return { sandbox: result.value };
      }
    });
    return await Promise.all(forks);
  } finally {
    await releaseSnapshot(context, snapshot.buildId);
  }
}

/** No client knows it: nothing else ends it before its time. */
async function endUnawaited(context: ClusterContext, sandboxId: string): Promise<void> {
  await cleanUpOrRetry(context, `fork ${sandboxId}`, async () => {
    await endSandbox(context, sandboxId, { reason: "no client waits for it" });
  });
}

function toOptions(
  { cluster }: ClusterContext,
  source: SandboxRecord,
  timeoutSeconds: number,
): CreateOptions {
  return {
    ...optionsOf(source, cluster.secrets),
    timeoutSeconds,
    pausesAtTimeout: false,
    keepsMemory: false,
    resumesOnTraffic: false,
  };
}
