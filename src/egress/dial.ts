/** A connection to one of the addresses that a name is pinned to, and to no other. */

import { once } from "node:events";
import { connect, type Socket } from "node:net";
import type { NameResolver } from "./resolver.ts";

const DIAL_TIMEOUT_MS = 10_000;
const MAX_DIALS = 3;

/** Undefined when the name leads nowhere or nothing answers there. */
export async function dialName(
  resolver: NameResolver,
  name: string,
  port: number,
): Promise<Socket | undefined> {
  const { addresses } = await resolver.lookup(name);
  for (const host of addresses.slice(0, MAX_DIALS)) {
    const socket = connect({ host, port, allowHalfOpen: true, noDelay: true });
    try {
      await once(socket, "connect", { signal: AbortSignal.timeout(DIAL_TIMEOUT_MS) });
      return socket;
    } catch {
      // The next address may answer; that none did is told by the result.
      socket.destroy();
    }
  }
  return undefined;
}
