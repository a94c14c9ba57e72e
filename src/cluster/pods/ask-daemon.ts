/** Questions to the daemon of a Pod, on the connection that only fronts can make. */

import { errorText, hasErrorCode, SandboxError } from "../../common/errors.ts";
import { readBounded } from "../../common/http.ts";
import { callDaemon } from "../../sandboxes/boot/daemon-call.ts";
import type { PodDialer } from "./dial.ts";

export interface DaemonQuestion {
  readonly path: string;
  readonly maxBytes: number;
  /** Of a question with arguments. */
  readonly body?: unknown;
}

/**
 * The whole body of a reply.
 * @throws SandboxError unavailable when it does not answer, or with more than the most bytes;
 * internal when it refuses, as a daemon that does not know the path.
 */
export async function askDaemon(
  dialer: Pick<PodDialer, "dialControl">,
  { path, maxBytes, body }: DaemonQuestion,
  signal: AbortSignal,
): Promise<Buffer> {
  const socket = await dialer.dialControl(signal);
  const reply = await callDaemon(
    socket,
    { method: body === undefined ? "GET" : "POST", path, body },
    signal,
  );
  try {
    return await readBounded(reply, maxBytes, `daemon ${path}`);
  } catch (error) {
    // A fault of the Pod, not of the client's limits.
    if (!hasErrorCode(error, "resource_exhausted")) throw error;
    throw new SandboxError("unavailable", errorText(error), { cause: error });
  } finally {
    socket.destroy();
  }
}
