/**
 * The proof that the owner of a spool lives: a socket that it listens on. Once the owner is dead
 * the kernel refuses connections.
 */

import { once } from "node:events";
import { chmod, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { isListening } from "../common/listening.ts";
import { openSocketPath } from "../common/socket-path.ts";

const SUFFIX = ".sock";
const LEASE_PATTERN = /^([0-9a-f]{16})\.sock$/;

/** Holds the lease of an owner until disposed. */
export async function startLease(root: string, owner: string): Promise<AsyncDisposable> {
  const path = leasePath(root, owner);
  const address = await openSocketPath(path);
  const server = createServer((socket) => socket.destroy());
  server.listen(address.path);
  try {
    await once(server, "listening");
  } catch (error) {
    await address[Symbol.asyncDispose]();
    throw error;
  }
  if (process.platform !== "win32") await chmod(path, 0o600);
  // A lease does not keep the process running.
  server.unref();
  return {
    async [Symbol.asyncDispose]() {
      const { promise, resolve } = Promise.withResolvers<void>();
      server.close(() => resolve());
      await promise;
      await address[Symbol.asyncDispose]();
    },
  };
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
