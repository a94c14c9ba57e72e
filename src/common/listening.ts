/**
 * Whether a process listens at a socket: proof that its owner lives. When an owner dies, however
 * that comes about, the kernel refuses the next connection at once.
 */

import { connect } from "node:net";
import { isCode } from "./errors.ts";
import { openSocketPath } from "./socket-path.ts";

const PROBE_TIMEOUT_MS = 1000;

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
