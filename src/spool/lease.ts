/**
 * The proof that the owner of a spool lives: a socket that it listens on. Once the owner is dead
 * the kernel refuses connections.
 */

import { once } from "node:events";
import { rm } from "node:fs/promises";
import { createServer, type Server } from "node:net";
import { join } from "node:path";
import { listenAtPath } from "../common/listen-at-path.ts";
import { isListening } from "../common/listening.ts";

const SUFFIX = ".sock";
const LEASE_PATTERN = /^([0-9a-f]{16})\.sock$/;

/** Holds the lease of an owner until disposed. */
export async function startLease(root: string, owner: string): Promise<AsyncDisposable> {
  const path = leasePath(root, owner);
  const server = createServer((socket) => socket.destroy());
  const close = async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    server.close(() => resolve());
    await promise;
  };
  const stop = await listen(server, path, close);
  // A lease does not keep the process running.
  server.unref();
  return { [Symbol.asyncDispose]: stop };
}

async function listen(
  server: Server,
  path: string,
  close: () => Promise<void>,
): Promise<() => Promise<void>> {
  if (process.platform !== "win32") return listenAtPath(server, path, close);
  server.listen(path);
  await once(server, "listening");
  return close;
}

/** Whether an owner lives; also one that is too busy to answer. */
export function isLeased(root: string, owner: string): Promise<boolean> {
  return isListening(leasePath(root, owner));
}

/** The owner whose lease a file is; undefined for any other file. */
export function leaseOwner(name: string): string | undefined {
  return LEASE_PATTERN.exec(name)?.[1];
}

/** Removes what the lease of a dead owner left. */
export async function removeLease(root: string, owner: string): Promise<void> {
  await rm(leasePath(root, owner), { force: true });
}

function leasePath(root: string, owner: string): string {
  // Windows has named pipes instead of sockets in the file system.
  return process.platform === "win32"
    ? String.raw`\\.\pipe\sandbox-mcp-${owner}`
    : join(root, `${owner}${SUFFIX}`);
}
