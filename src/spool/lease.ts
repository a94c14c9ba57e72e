/**
 * The proof that the owner of a spool lives: a socket that it listens on. Once the owner is dead
 * the kernel refuses connections.
 */

import { rm } from "node:fs/promises";
import { join } from "node:path";
import { isListening, proveLife } from "../common/listening.ts";

const SUFFIX = ".sock";
const LEASE_PATTERN = /^([0-9a-f]{16})\.sock$/;

/** Holds the lease of an owner until disposed. */
export function startLease(root: string, owner: string): Promise<AsyncDisposable> {
  return proveLife(leasePath(root, owner));
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
