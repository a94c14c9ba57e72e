/**
 * Proof that the owner of a spool lives: a socket that it listens on. When it dies, however that
 * comes about, the kernel refuses the next connection at once.
 */

import { once } from "node:events";
import { chmod, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { join } from "node:path";
import { isListening } from "../common/listening.ts";

const SUFFIX = ".sock";
const LEASE_PATTERN = /^([0-9a-f]{16})\.sock$/;

/** Holds the lease of an owner until disposed. */
export async function startLease(root: string, owner: string): Promise<AsyncDisposable> {
  const path = leasePath(root, owner);
  const server = createServer((socket) => socket.destroy());
  server.listen(path);
  await once(server, "listening");
  if (process.platform !== "win32") await chmod(path, 0o600);
  // A lease keeps nobody alive.
  server.unref();
  return {
    async [Symbol.asyncDispose]() {
      const { promise, resolve } = Promise.withResolvers<void>();
      server.close(() => resolve());
      await promise;
    },
  };
}

/** Whether an owner lives; one that is too busy to answer does. */
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
  // Where sockets have no place in the file system, they have names of their own.
  return process.platform === "win32"
    ? String.raw`\\.\pipe\sandbox-mcp-${owner}`
    : join(root, `${owner}${SUFFIX}`);
}
