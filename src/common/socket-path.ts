/** Paths of unix sockets as the kernel takes them: an address holds few bytes, a home may be deep. */

import { open } from "node:fs/promises";
import { basename, dirname } from "node:path";

/** `sun_path` holds 108 bytes with the closing zero. */
const MAX_ADDRESS_BYTES = 107;

/** A path of the socket that fits into an address, until it is disposed. */
export interface SocketPath extends AsyncDisposable {
  readonly path: string;
}

/**
 * A long path is reached through the descriptor of its folder, which Linux alone has: elsewhere the
 * path stays as it is. A server keeps its path until it is closed, for it removes the socket by it.
 * @throws NodeJS.ErrnoException when the folder cannot be opened
 */
export async function openSocketPath(path: string): Promise<SocketPath> {
  if (Buffer.byteLength(path) <= MAX_ADDRESS_BYTES || process.platform !== "linux") {
    return { path, [Symbol.asyncDispose]: () => Promise.resolve() };
  }
  const folder = await open(dirname(path), "r");
  return {
    path: `/proc/self/fd/${folder.fd}/${basename(path)}`,
    [Symbol.asyncDispose]: () => folder.close(),
  };
}
