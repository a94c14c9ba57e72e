/**
 * How bytes reach a container: over unix sockets whose paths lie in a host-only folder. A port
 * inside is reached by an upgrade request to the daemon, so no network has to exist at all.
 */

import { request, type ClientRequest, type IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { join } from "node:path";
import { anySignal } from "../../common/any-signal.ts";
import { SandboxError, toSandboxError } from "../../common/errors.ts";
import { limitInterimReplies, MAX_DAEMON_REPLIES } from "../../common/interim-replies.ts";
import { signalAfter } from "../../common/late-signal.ts";
import { MAX_KEPT_BYTES } from "../../common/loop-turns.ts";
import { openSocketPath } from "../../common/socket-path.ts";

const MAX_PORT = 65_535;
/** A daemon answers an upgrade at once; a stopped one must not hold the caller for ever. */
const UPGRADE_TIMEOUT_MS = 10_000;

/** The names of the two listening sockets in a container's folder, in descriptor order. */
export const SOCKET_NAMES = { public: "envd.sock", control: "control.sock" } as const;

export interface SocketPlace {
  /** The container's folder. */
  readonly directory: string;
  /** What a connection begins with; undefined where nothing else can reach the daemon's sockets. */
  readonly secret?: string | undefined;
}

/**
 * A stream to a port of the container whose daemon `dialControl` reaches.
 * @throws SandboxError invalid_argument for no port number, unavailable when nothing answers.
 */
export async function openPort(
  dialControl: (signal: AbortSignal) => Promise<Socket>,
  port: number,
  signal: AbortSignal,
): Promise<Socket> {
  if (!Number.isInteger(port) || port < 1 || port > MAX_PORT) {
    throw new SandboxError("invalid_argument", `no such port: ${port}`);
  }
  return openTunnel(await dialControl(signal), port, signal);
}

/** A stream to one of the daemon's sockets. @throws SandboxError unavailable, canceled */
export async function dialDaemon(
  place: SocketPlace,
  name: keyof typeof SOCKET_NAMES,
  signal: AbortSignal,
): Promise<Socket> {
  const socket = await dialSocket(join(place.directory, SOCKET_NAMES[name]), signal);
  if (place.secret !== undefined) socket.write(place.secret);
  return socket;
}

/** A stream to a unix socket, however long its path is. @throws SandboxError unavailable, canceled */
export async function dialSocket(path: string, signal: AbortSignal): Promise<Socket> {
  await using address = await openSocketPath(path).catch((error: unknown) => {
    throw toSandboxError(error, "container is gone");
  });
  return await connectTo(address.path, signal);
}

async function connectTo(path: string, signal: AbortSignal): Promise<Socket> {
  if (signal.aborted) throw new SandboxError("canceled", "dial was canceled");
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  // Of a reader that pauses, Node keeps so much: a program inside may send it byte by byte.
  const options = { path, readableHighWaterMark: MAX_KEPT_BYTES };
  const socket = connect(options);
  const onAbort = () => socket.destroy(new SandboxError("canceled", "dial was canceled"));
  socket.once("error", reject);
  socket.once("connect", () => resolve(socket));
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    await promise;
    socket.off("error", reject);
    return socket;
  } catch (error) {
    socket.destroy();
    throw toSandboxError(error, "container does not answer");
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

/** Turns a control connection into a raw stream to a port inside. */
export async function openTunnel(
  control: Socket,
  port: number,
  signal: AbortSignal,
): Promise<Socket> {
  const late = signalAfter(UPGRADE_TIMEOUT_MS);
  const deadline = anySignal([signal, late]);
  const call = request({
    createConnection: () => control,
    path: `/tunnel/${port}`,
    headers: { connection: "Upgrade", upgrade: "tcp", host: "localhost" },
    signal: deadline,
  });
  try {
    return await upgraded(call, port);
  } catch (error) {
    control.destroy();
    if (!late.aborted) throw toSandboxError(error, `port ${port}`);
    throw new SandboxError("deadline_exceeded", `port ${port}: no answer`, { cause: error });
  }
}

async function upgraded(call: ClientRequest, port: number): Promise<Socket> {
  const { promise, resolve, reject } = Promise.withResolvers<Socket>();
  limitInterimReplies(call, MAX_DAEMON_REPLIES);
  // A daemon that is not ours any more may cause more than one.
  call.on("error", reject);
  call.once("upgrade", (_response: IncomingMessage, socket: Socket, head: Buffer) => {
    if (head.length > 0) socket.unshift(head);
    resolve(socket);
  });
  call.once("response", (response: IncomingMessage) => {
    response.resume();
    reject(new SandboxError("unavailable", `nothing listens on port ${port} in the sandbox`));
  });
  call.once("close", () => reject(new SandboxError("unavailable", "the tunnel was not opened")));
  call.end();
  return promise;
}
