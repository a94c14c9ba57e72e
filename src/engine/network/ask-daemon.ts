/** The question whether the daemon of a container answers. */

import type { Socket } from "node:net";
import { withDeadline } from "../../common/clock.ts";
import { SandboxError } from "../../common/errors.ts";
import { signalAfter } from "../../common/late-signal.ts";

/**
 * Any HTTP answer on the control socket proves that node runs inside.
 * @throws SandboxError unavailable, deadline_exceeded
 */
export async function askDaemon(
  dialControl: (signal: AbortSignal) => Promise<Socket>,
  timeoutMs: number,
): Promise<void> {
  const socket = await dialControl(signalAfter(timeoutMs));
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  socket.once("data", (chunk: Buffer) => resolve(chunk.toString("latin1")));
  socket.once("error", reject);
  socket.once("close", () => resolve(""));
  socket.write("GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  try {
    const answer = await withDeadline(promise, timeoutMs, silentDaemon);
    if (!answer.startsWith("HTTP/1.1 ")) throw new SandboxError("unavailable", "no HTTP answer");
  } finally {
    socket.destroy();
  }
}

function silentDaemon(): SandboxError {
  return new SandboxError("deadline_exceeded", "the daemon does not answer");
}
