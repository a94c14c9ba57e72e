/**
 * Finds the sandboxes that ended without a call of this server, above all by their timeouts: nothing
 * tells of it, and their logs would stay in the list, in memory and on the disk for as long as the
 * server runs. Logs of others that ended are forgotten on the way.
 */

import { anySignal } from "../common/any-signal.ts";
import { everyInterval, type Clock } from "../common/clock.ts";
import { hasErrorCode } from "../common/errors.ts";
import { signalAfter } from "../common/late-signal.ts";
import type { SandboxLogs } from "../output/logs.ts";

/** A sandbox whose log changed within this time has not ended long ago, and is not asked for. */
const LOOK_MS = 5 * 60_000;
const ANSWER_TIMEOUT_MS = 10_000;

interface EndedSandboxesOptions {
  readonly clock: Clock;
  readonly logs: Pick<SandboxLogs, "list">;
  /** Asks the service. @throws SandboxError not_found when there is no such sandbox. */
  get(sandboxId: string, signal: AbortSignal): Promise<unknown>;
  /** Drops a sandbox that is gone. */
  forget(sandboxId: string): void;
  /** Ends it. */
  readonly signal: AbortSignal;
}

/** Looks every some minutes until the signal fires. */
export async function forgetEndedSandboxes(options: EndedSandboxesOptions): Promise<void> {
  const { clock, logs, signal } = options;
  for await (const _ of everyInterval(clock, LOOK_MS, signal)) {
    const silent = logs.list().filter(({ changedAtMs }) => isSilent(changedAtMs, clock.now()));
    for (const { sandboxId } of silent) {
      if (signal.aborted) return;
      if (await isGone(sandboxId, options)) options.forget(sandboxId);
    }
  }
}

/** False as long as the service does not say so. */
async function isGone(
  sandboxId: string,
  options: Pick<EndedSandboxesOptions, "get" | "signal">,
): Promise<boolean> {
  try {
    const signal = anySignal([options.signal, signalAfter(ANSWER_TIMEOUT_MS)]);
    await options.get(sandboxId, signal);
    return false;
  } catch (error) {
    return hasErrorCode(error, "not_found");
  }
}

/** By the distance in time: the clock may have been set back. */
function isSilent(changedAtMs: number, nowMs: number): boolean {
  return Math.abs(nowMs - changedAtMs) >= LOOK_MS;
}
