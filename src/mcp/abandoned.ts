/**
 * Calls that make sandboxes. A call that is cancelled has no reply, so its caller has no id of what
 * was made for it: that is ended.
 */

import { createGate } from "../common/concurrency.ts";
import { signalAfter } from "../common/late-signal.ts";
import { orCanceled, throwIfCanceled } from "../common/or-canceled.ts";
import type { ToolContext } from "./tool.ts";

interface Making<T> {
  /** The signal ends it only when the server does not wait any more. */
  make(signal: AbortSignal): Promise<T>;
  /** The sandboxes that were made. */
  idsOf(made: T): readonly string[];
}

type MakingContext = Pick<ToolContext, "service" | "state" | "signal" | "log">;

/** How long the end of the server waits for such sandboxes; after it, their timeout ends them. */
const LAST_CHANCE_MS = 1_000;
const KILL_TIMEOUT_MS = 1_000;
const MAX_KILLS_AT_ONCE = 8;

/**
 * What was made, recorded as made by this server.
 * @throws SandboxError canceled when the call is cancelled before, and as the work does.
 */
export async function makeOrAbandon<T>(making: Making<T>, context: MakingContext): Promise<T> {
  const { state, signal } = context;
  throwIfCanceled(signal);
  const giveUp = new AbortController();
  const work = making.make(giveUp.signal);
  try {
    const made = await orCanceled(work, signal);
    for (const id of making.idsOf(made)) state.adopt(id);
    return made;
  } catch (error) {
    const ids = work.then((made) => making.idsOf(made));
    if (signal.aborted) state.track(abandon(ids, giveUp, context));
    else ids.catch(() => undefined);
    throw error;
  }
}

async function abandon(
  making: Promise<readonly string[]>,
  giveUp: AbortController,
  { service, state, log }: MakingContext,
): Promise<void> {
  const end = () => void setTimeout(() => giveUp.abort(), LAST_CHANCE_MS).unref();
  if (state.signal.aborted) end();
  else state.signal.addEventListener("abort", end, { once: true });
  try {
    const ids = await making;
    const gate = createGate(MAX_KILLS_AT_ONCE);
    const kill = (id: string) =>
      gate.run(() => service.control.kill(id, signalAfter(KILL_TIMEOUT_MS)));
    await Promise.all(ids.map((id) => kill(id)));
  } catch (error) {
    log.debug({ op: "sandbox.abandon", err: error }, "nothing to end");
  } finally {
    state.signal.removeEventListener("abort", end);
  }
}
