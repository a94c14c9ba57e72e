/** Waits for a sandbox that changes its state: what is refused for that is asked for again. */

import { SandboxError } from "../common/errors.ts";
import { pause, replyError, type Connection, type Exchange, type HttpReply } from "./http.ts";

/** A change of state takes a second or two; beyond that the caller is told. */
const MAX_WAIT_MS = 10_000;
const FIRST_PAUSE_MS = 250;
const MAX_PAUSE_MS = 2_000;
const CONFLICT = 409;

type Waiting = Pick<Exchange, "signal" | "subject">;

/**
 * The reply of a request that a sandbox in transition refuses with 409, which means that nothing
 * was done: it is safe to repeat, whatever it is.
 * @param isFinal whether a refusal has another reason, so that it stands.
 */
export async function retryConflicts(
  connection: Connection,
  wanted: Waiting & { readonly send: () => Promise<HttpReply> },
  isFinal: () => Promise<boolean>,
): Promise<HttpReply> {
  const deadlineMs = connection.clock.now() + MAX_WAIT_MS;
  for (let pauseMs = FIRST_PAUSE_MS; ; pauseMs = Math.min(pauseMs * 2, MAX_PAUSE_MS)) {
    const reply = await wanted.send();
    if (reply.status !== CONFLICT || (await isFinal())) return reply;
    if (connection.clock.now() >= deadlineMs) throw stillChanging(wanted.subject, reply);
    await pause(connection.clock, pauseMs, wanted);
  }
}

function stillChanging(subject: string, reply: HttpReply): SandboxError {
  const error = replyError(subject, reply);
  const hint = "It is changing its state: repeat this call in a few seconds.";
  return new SandboxError(error.code, error.message, { cause: error, hint });
}
