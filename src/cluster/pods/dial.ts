/** Connections into the Pod of a sandbox, through its one listener. */

import { randomBytes, type KeyObject } from "node:crypto";
import { request, type ClientRequest, type IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { anySignal } from "../../common/any-signal.ts";
import { hasErrorCode, SandboxError, toSandboxError } from "../../common/errors.ts";
import { limitInterimReplies, MAX_DAEMON_REPLIES } from "../../common/interim-replies.ts";
import { signalAfter } from "../../common/late-signal.ts";
import { openTunnel } from "../../engine/network/container-sockets.ts";
import {
  POD_PORT,
  POD_PROTOCOL,
  makePass,
  PASS_HEADER,
  type PodTarget,
} from "../../wire/pod-listener.ts";

/** A Pod that does not answer by then is on a node that is gone. */
const CONNECT_TIMEOUT_MS = 5_000;
const MAX_PORT = 65_535;
const UNTOLD = 409;
/** What an operator has to look at where a daemon refuses a pass. */
const REFUSALS: Readonly<Record<number, string>> = {
  401: ": the Secret sandbox-mcp-seed is not that with which it was made",
  403: ": the clock of its node is minutes from that of this front",
};

export interface PodAddress {
  readonly podName: string;
  readonly host: string;
  /** Of the listener; another one in tests alone. */
  readonly port?: number;
  readonly passKey: KeyObject;
}

/** What connects to a sandbox, wherever it runs. */
export interface PodDialer {
  dial(port: number, signal: AbortSignal): Promise<Socket>;
  dialPublic(signal: AbortSignal): Promise<Socket>;
  dialControl(signal: AbortSignal): Promise<Socket>;
}

/**
 * Connections to one Pod. `tell` gives a daemon that started anew its sandbox again.
 */
export function createPodDialer(
  address: PodAddress,
  tell: (dialer: Pick<PodDialer, "dialControl">, signal: AbortSignal) => Promise<void>,
): PodDialer {
  const dialControl = (signal: AbortSignal) => enter(address, "/control", signal);
  return {
    dialControl,
    async dialPublic(signal) {
      try {
        return await enter(address, "/public", signal);
      } catch (error) {
        if (!isUntold(error)) throw error;
      }
      await tell({ dialControl }, signal);
      return enter(address, "/public", signal);
    },
    async dial(port, signal) {
      if (!Number.isInteger(port) || port < 1 || port > MAX_PORT) {
        throw new SandboxError("invalid_argument", `no such port: ${port}`);
      }
      return openTunnel(await dialControl(signal), port, signal);
    },
  };
}

function isUntold(error: unknown): boolean {
  return hasErrorCode(error, "failed_precondition");
}

async function enter(address: PodAddress, target: PodTarget, signal: AbortSignal): Promise<Socket> {
  const late = signalAfter(CONNECT_TIMEOUT_MS);
  const bounded = anySignal([signal, late]);
  const socket = await connectTo(address, bounded);
  const nonce = randomBytes(16).toString("hex");
  const subject = { podName: address.podName, target, atMs: Date.now(), nonce };
  const call = request({
    createConnection: () => socket,
    path: target,
    headers: {
      host: "localhost",
      connection: "Upgrade",
      upgrade: POD_PROTOCOL,
      [PASS_HEADER]: makePass(subject, address.passKey),
    },
    signal: bounded,
  });
  try {
    return await upgraded(call);
  } catch (error) {
    socket.destroy();
    if (late.aborted) throw noAnswer(error);
    throw toSandboxError(error, "sandbox");
  }
}

function noAnswer(cause: unknown): SandboxError {
  return new SandboxError("unavailable", "the Pod of the sandbox does not answer", { cause });
}

async function connectTo({ host, port = POD_PORT }: PodAddress, signal: AbortSignal) {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const socket = connect({ host, port, noDelay: true, keepAlive: true });
  const abort = () => reject(noAnswer(signal.reason));
  signal.addEventListener("abort", abort, { once: true });
  if (signal.aborted) abort();
  socket.once("connect", resolve);
  socket.once("error", reject);
  try {
    await promise;
    return socket;
  } catch (error) {
    socket.destroy();
    throw toSandboxError(error, "sandbox");
  } finally {
    signal.removeEventListener("abort", abort);
    socket.off("error", reject);
    socket.on("error", () => undefined);
  }
}

async function upgraded(call: ClientRequest): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  limitInterimReplies(call, MAX_DAEMON_REPLIES);
  call.on("error", reject);
  call.once("upgrade", (_reply: IncomingMessage, socket: Socket, head: Buffer) => {
    if (head.length > 0) socket.unshift(head);
    resolve(socket);
  });
  call.once("response", (reply: IncomingMessage) => {
    reply.resume();
    const { statusCode = 0 } = reply;
    const code = statusCode === UNTOLD ? "failed_precondition" : "unavailable";
    const reason = REFUSALS[statusCode] ?? "";
    reject(new SandboxError(code, `the Pod of the sandbox answered ${statusCode}${reason}`));
  });
  call.once("close", () =>
    reject(new SandboxError("unavailable", "the Pod closed the connection")),
  );
  call.end();
  return promise;
}
