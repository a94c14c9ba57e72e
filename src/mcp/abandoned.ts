/**
 * Calls that make sandboxes and snapshots. A call that is cancelled has no reply, so its caller has no
 * id of what was made for it: that is removed.
 */

import { createBackoff } from "../common/backoff.ts";
import { sleepUnlessWoken } from "../common/clock.ts";
import { createGate } from "../common/concurrency.ts";
import { hasErrorCode } from "../common/errors.ts";
import { signalAfter } from "../common/late-signal.ts";
import { orCanceled, throwIfCanceled } from "../common/or-canceled.ts";
import type { ToolContext } from "./tool.ts";

interface Making<T> {
  /** The signal ends it only when the server does not wait any more. */
  make(signal: AbortSignal): Promise<T>;
  remove(made: T, signal: AbortSignal): Promise<unknown>;
}

interface MakingSandboxes<T> extends Pick<Making<T>, "make"> {
  /** The sandboxes that were made. */
  idsOf(made: T): readonly string[];
}

type MakingContext = Pick<ToolContext, "service" | "state" | "signal" | "log">;

/** How long the end of the server waits for an answer, and then for a removal. */
const LAST_CHANCE_MS = 1_000;
const REMOVAL_TIMEOUT_MS = 10_000;
/** A removal that fails is tried again, six minutes in all: no client has the id. */
const MAX_REMOVALS = 10;
const FIRST_RETRY_MS = 1_000;
const MAX_RETRY_MS = 120_000;
const MAX_KILLS_AT_ONCE = 8;

/**
 * The sandboxes that were made, recorded as made by this server.
 * @throws SandboxError canceled when the call is cancelled before, and as the work does.
 */
export async function makeSandboxes<T>(
  making: MakingSandboxes<T>,
  context: MakingContext,
): Promise<T> {
  const { service, state } = context;
  const gate = createGate(MAX_KILLS_AT_ONCE);
  const remove = async (made: T, signal: AbortSignal) =>
    Promise.all(making.idsOf(made).map((id) => gate.run(() => service.control.kill(id, signal))));
  const made = await makeOrAbandon({ make: (signal) => making.make(signal), remove }, context);
  for (const id of making.idsOf(made)) state.adopt(id);
  return made;
}

/**
 * What was made.
 * @throws SandboxError canceled when the call is cancelled before, and as the work does.
 */
export async function makeOrAbandon<T>(making: Making<T>, context: MakingContext): Promise<T> {
  const { state, signal } = context;
  throwIfCanceled(signal);
  const giveUp = new AbortController();
  const work = making.make(giveUp.signal);
  try {
    return await orCanceled(work, signal);
  } catch (error) {
    if (signal.aborted) state.track(abandon(work, { giveUp, making, context }));
    throw error;
  }
}

interface Abandoned<T> {
  readonly giveUp: AbortController;
  readonly making: Making<T>;
  readonly context: MakingContext;
}

async function abandon<T>(
  work: Promise<T>,
  { giveUp, making, context }: Abandoned<T>,
): Promise<void> {
  const { state, log } = context;
  const end = () => void setTimeout(() => giveUp.abort(), LAST_CHANCE_MS).unref();
  if (state.signal.aborted) end();
  else state.signal.addEventListener("abort", end, { once: true });
  try {
    const made = await work;
    await removeAtLast((signal) => making.remove(made, signal), context);
  } catch (error) {
    log.debug({ op: "mcp.abandon", err: error }, "nothing to remove");
  } finally {
    state.signal.removeEventListener("abort", end);
  }
}

/** Until it succeeds, or has failed too often; the end of the server leaves one attempt. */
async function removeAtLast(
  remove: (signal: AbortSignal) => Promise<unknown>,
  { state, log }: MakingContext,
): Promise<void> {
  const backoff = createBackoff(FIRST_RETRY_MS, MAX_RETRY_MS);
  for (let attempt = 1; ; attempt += 1) {
    const isLast = state.signal.aborted || attempt === MAX_REMOVALS;
    try {
      await remove(signalAfter(state.signal.aborted ? LAST_CHANCE_MS : REMOVAL_TIMEOUT_MS));
      return;
    } catch (error) {
      if (hasErrorCode(error, "not_found")) return;
      if (isLast) {
        log.warn({ op: "mcp.abandon", err: error }, "what a cancelled call made is left");
        return;
      }
    }
    await sleepUnlessWoken(state.clock, backoff.next(), state.signal);
  }
}
