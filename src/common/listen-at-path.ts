/**
 * Servers at unix sockets whose names prove that the owner lives. Between bind(2) and listen(2) the
 * kernel refuses connections, as it does after the owner's death: so the socket gets its name after both.
 */

import { chmod, rename, rm } from "node:fs/promises";
import type { Server } from "node:net";
import { openSocketPath } from "./socket-path.ts";

/** Of a socket that does not listen yet. */
const DRAFT = ".new";
const OWNER_ONLY = 0o600;

/**
 * Listens at a path, in the place of a socket that was left there; the caller knows that its owner is
 * dead. Returns what takes the name away and then closes the server by `close`.
 * @throws NodeJS.ErrnoException when the server cannot listen
 */
export async function listenAtPath(
  server: Server,
  path: string,
  close: () => Promise<void>,
): Promise<() => Promise<void>> {
  const draft = `${path}${DRAFT}`;
  for (const left of [path, draft]) await rm(left, { force: true });
  const address = await openSocketPath(draft);
  const stop = async (): Promise<void> => {
    // Before the server refuses connections: a successor may take the name then. A name that stays,
    // as on a disk that has become read-only, is as one of a dead owner.
    await rm(path, { force: true }).catch(() => undefined);
    await close();
    // Closing removes the draft of a server that never got its name.
    await address[Symbol.asyncDispose]();
  };
  try {
    await listening(server, address.path);
    await chmod(draft, OWNER_ONLY);
    await rename(draft, path);
  } catch (error) {
    await stop();
    throw error;
  }
  return stop;
}

async function listening(server: Server, path: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  // Later errors are of single connections that could not be taken.
  server.on("error", reject);
  server.listen(path, resolve);
  await promise;
}
