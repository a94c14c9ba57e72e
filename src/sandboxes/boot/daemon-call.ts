/** Calls to the daemon on the channel that only the host has, and detection of a stopped daemon. */

import { request, type IncomingMessage } from "node:http";
import type { Duplex } from "node:stream";
import { SandboxError, toSandboxError } from "../../common/errors.ts";
import { limitInterimReplies, MAX_DAEMON_REPLIES } from "../../common/interim-replies.ts";
import { signalAfter } from "../../common/late-signal.ts";
import { asOperation } from "../../common/operation.ts";
import { MESSAGES } from "../../wire/messages.ts";

export interface DaemonCall {
  readonly method: "GET" | "POST";
  readonly path: string;
  readonly body?: unknown;
  /** Statuses beyond 200 and 204 that the caller handles. */
  readonly handled?: readonly number[];
}

/**
 * One request on a connection of its own; the reply's head has come when it resolves. The signal
 * ends the connection at any time, also while the body is read.
 * @throws SandboxError unavailable when the daemon does not answer, internal when it refuses.
 */
export async function callDaemon(
  socket: Duplex,
  call: DaemonCall,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const reply = await asOperation("daemon.call", () => send(socket, call, signal));
  const { statusCode = 0 } = reply;
  if (![200, 204, ...(call.handled ?? [])].includes(statusCode)) {
    socket.destroy();
    throw new SandboxError("internal", `daemon ${call.path} answered ${statusCode}`);
  }
  return reply;
}

async function send(
  socket: Duplex,
  call: DaemonCall,
  signal: AbortSignal,
): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
  const payload = call.body === undefined ? undefined : JSON.stringify(call.body);
  const outgoing = request({
    createConnection: () => socket,
    method: call.method,
    path: call.path,
    headers: {
      host: "localhost",
      ...(payload !== undefined && { "content-type": "application/json" }),
    },
    signal,
  });
  limitInterimReplies(outgoing, MAX_DAEMON_REPLIES);
  outgoing.on("response", resolve);
  // An abort says that its signal fired, and the signal whether a caller or a bound did so.
  const reasonOf = (error: Error): unknown => (signal.aborted ? signal.reason : error);
  outgoing.on("error", (error) => reject(toSandboxError(reasonOf(error), `daemon ${call.path}`)));
  // A reply that switches protocols unasked ends the connection without an error.
  outgoing.on("close", () => {
    reject(new SandboxError("unavailable", `daemon ${call.path}: closed without a reply`));
  });
  outgoing.end(payload);
  return promise;
}

/** So long after the first call that waits one question is asked for all that wait then. */
const PATIENCE_MS = 2_000;
/** A daemon that does not answer its host within this time is taken for stopped. */
const SILENCE_MS = 8_000;

/** Ends a wait. */
type Stop = () => void;

export interface DaemonWatch {
  /**
   * A call waits for its reply from now on; the function that it returns is called when that has
   * begun, or the call is over. `onSilence` is called at most once, and not after that.
   */
  wait(onSilence: (error: SandboxError) => void): Stop;
}

export interface DaemonWatchOptions {
  /** Resolves when the daemon has answered its host; rejects when the signal fires first. */
  ask(signal: AbortSignal): Promise<void>;
  readonly patienceMs?: number;
  readonly silenceMs?: number;
}

/**
 * Finds a daemon that is stopped, as root inside can do by a signal, while calls wait for it: the
 * kernel still takes its connections, and it never answers. A daemon that is only busy with a long
 * call answers its host beside it. Without a waiting call nothing is asked.
 */
export function createDaemonWatch(options: DaemonWatchOptions): DaemonWatch {
  const { patienceMs = PATIENCE_MS, silenceMs = SILENCE_MS } = options;
  const waiting = new Set<(error: SandboxError) => void>();
  let timer: NodeJS.Timeout | undefined;

  /** The one timer: it runs while a call waits or a question is under way. */
  function schedule(): void {
    timer = setTimeout(() => void look(), patienceMs).unref();
  }

  /** Never rejects. Silence is that of the daemon: calls that came meanwhile are told with the others. */
  async function look(): Promise<void> {
    if (waiting.size > 0 && (await isSilent())) {
      const error = new SandboxError("deadline_exceeded", MESSAGES.daemonSilent);
      for (const one of waiting) if (waiting.delete(one)) one(error);
    }
    timer = undefined;
    if (waiting.size > 0) schedule();
  }

  async function isSilent(): Promise<boolean> {
    const late = signalAfter(silenceMs);
    try {
      await options.ask(late);
      return false;
    } catch {
      // A daemon that starts anew breaks the connection; it is asked again.
      return late.aborted;
    }
  }

  return {
    wait(onSilence) {
      // Each wait is its own, also of one and the same function.
      const one = (error: SandboxError) => onSilence(error);
      waiting.add(one);
      if (timer === undefined) schedule();
      return () => void waiting.delete(one);
    },
  };
}
