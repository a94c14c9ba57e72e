/**
 * A socket at which a process listens: proof that its owner lives. When an owner dies, however
 * that comes about, the kernel refuses the next connection at once.
 */

import { once } from "node:events";
import { connect, createServer, type Server } from "node:net";
import { isCode } from "./errors.ts";
import { listenAtPath } from "./listen-at-path.ts";
import { openSocketPath } from "./socket-path.ts";

const PROBE_TIMEOUT_MS = 1000;

/**
 * Listens at a path until disposed, for nothing but this proof; it does not keep the process running.
 * @throws NodeJS.ErrnoException when it cannot listen
 */
export async function proveLife(path: string): Promise<AsyncDisposable> {
  const server = createServer((socket) => socket.destroy());
  const close = async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    server.close(() => resolve());
    await promise;
  };
  const stop = await listen(server, path, close);
  server.unref();
  return { [Symbol.asyncDispose]: stop };
}

async function listen(
  server: Server,
  path: string,
  close: () => Promise<void>,
): Promise<() => Promise<void>> {
  // Windows has named pipes, which are no files.
  if (process.platform !== "win32") return listenAtPath(server, path, close);
  server.listen(path);
  await once(server, "listening");
  return close;
}

/** Connects to the path of a socket; an owner that is too busy to answer is not taken for dead. */
export async function isListening(path: string): Promise<boolean> {
  try {
    await using address = await openSocketPath(path);
    return await isAnswering(address.path);
  } catch (error) {
    return !isAbsent(error);
  }
}

async function isAnswering(path: string): Promise<boolean> {
  const { promise, resolve } = Promise.withResolvers<boolean>();
  const socket = connect(path);
  socket.setTimeout(PROBE_TIMEOUT_MS, () => resolve(true));
  socket.on("connect", () => resolve(true));
  socket.on("error", (error) => resolve(!isAbsent(error)));
  try {
    return await promise;
  } finally {
    socket.destroy();
  }
}

function isAbsent(error: unknown): boolean {
  return isCode(error, "ECONNREFUSED", "ENOENT", "ENOTDIR");
}
