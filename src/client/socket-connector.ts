/** Connections of HTTP clients to a unix socket, whatever the length of its path. */

import { buildConnector } from "undici";
import { openSocketPath } from "../common/socket-path.ts";

/** Each connection looks the path up again: a service that starts anew has a new folder. */
export function socketConnector(path: string): buildConnector.connector {
  return (target, callback) => void connect(path, target, callback);
}

type Target = Parameters<buildConnector.connector>[0];
type Connected = Parameters<buildConnector.Callback>;

async function connect(path: string, target: Target, callback: buildConnector.Callback) {
  callback(...(await tryConnect(path, target)));
}

async function tryConnect(path: string, target: Target): Promise<Connected> {
  try {
    await using address = await openSocketPath(path);
    const { promise, resolve } = Promise.withResolvers<Connected>();
    const open = buildConnector({ socketPath: address.path });
    open(target, (...connected) => resolve(connected));
    return await promise;
  } catch (error) {
    return [error instanceof Error ? error : new Error(String(error)), null];
  }
}
