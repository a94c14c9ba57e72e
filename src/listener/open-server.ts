/** A server's place on the machine: a unix socket or a TCP port, from its opening to its end. */

import { chmod, rm } from "node:fs/promises";
import type { Server } from "node:http";
import type { ListenOptions } from "node:net";
import { SandboxError } from "../common/errors.ts";
import { openSocketPath } from "../common/socket-path.ts";
import type { TlsIdentity } from "./tls.ts";

export type ListenAddress =
  | { readonly kind: "unix"; readonly path: string }
  | {
      readonly kind: "tcp";
      readonly host: string;
      readonly port: number;
      /** Undefined for plain HTTP. */
      readonly tls?: TlsIdentity | undefined;
    };

/** A server that listens. */
export interface OpenServer {
  readonly server: Server;
  /** Takes no more connections; resolves once the last one has ended. */
  close(): Promise<void>;
}

/** @throws SandboxError unavailable when the address cannot be opened. */
export async function openServer(server: Server, address: ListenAddress): Promise<OpenServer> {
  if (address.kind === "tcp") {
    await listen(server, { host: address.host, port: address.port }, addressName(address));
    return { server, close: () => closeServer(server) };
  }
  // The caller has made sure that no living service listens there.
  await rm(address.path, { force: true });
  const socket = await openSocketPath(address.path).catch((error: unknown) => {
    throw cannotListen(addressName(address), error);
  });
  const close = async () => {
    await closeServer(server);
    await socket[Symbol.asyncDispose]();
  };
  try {
    await listen(server, { path: socket.path }, addressName(address));
    await chmod(address.path, 0o600);
  } catch (error) {
    await close();
    throw error;
  }
  return { server, close };
}

function addressName(address: ListenAddress): string {
  return address.kind === "unix" ? address.path : `${address.host}:${address.port}`;
}

async function listen(server: Server, options: ListenOptions, name: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  server.once("error", (error) => reject(cannotListen(name, error)));
  server.listen(options, resolve);
  await promise;
}

function cannotListen(name: string, cause: unknown): SandboxError {
  return new SandboxError("unavailable", `cannot listen on ${name}`, { cause });
}

/** Also one that never listened. */
async function closeServer(server: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  server.closeIdleConnections();
  await promise;
}
