/** What a request for forks must keep to, on one machine and with Pods. */

import { SandboxError } from "../../common/errors.ts";
import { throwIfCanceled } from "../../common/or-canceled.ts";
import { forkTooMany, MESSAGES } from "../../wire/messages.ts";
import { checkTimeout } from "../timeout.ts";

const MAX_FORKS = 100;

export interface ForkOptions {
  readonly count: number;
  readonly timeoutSeconds: number;
  /** Fires when no client waits for the forks any more: those that were made are ended. */
  readonly signal: AbortSignal;
}

/** @param limit how many sandboxes the team may have, the source among them */
export function checkForkOptions({ count, timeoutSeconds }: ForkOptions, limit: number): void {
  checkTimeout(timeoutSeconds);
  if (count < 1) throw refuse(MESSAGES.forkTooFew);
  if (count > MAX_FORKS) throw refuse(`Count cannot be greater than ${MAX_FORKS}`);
  if (count >= limit) throw refuse(forkTooMany(limit));
}

function refuse(message: string): SandboxError {
  return new SandboxError("invalid_argument", message);
}

/** @throws SandboxError canceled when its client has gone. */
export function requireForkAwaited({ signal }: ForkOptions): void {
  throwIfCanceled(signal, "fork was canceled");
}
