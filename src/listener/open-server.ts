/** A server's place on the machine: a unix socket or a TCP port, from its opening to its end. */

import type { Server } from "node:http";
import type { ListenOptions } from "node:net";
import { causeCode, SandboxError } from "../common/errors.ts";
import { listenAtPath } from "../common/listen-at-path.ts";
import { shortageOf } from "../common/shortage.ts";
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

export interface OpenServer {
  readonly server: Server;
  /** Takes no more connections; resolves once the last one has ended. */
  close(): Promise<void>;
}

/**
 * At a path the caller has made sure that no living service listens there.
 * @throws SandboxError unavailable when the address cannot be opened.
 */
export async function openServer(server: Server, address: ListenAddress): Promise<OpenServer> {
  if (address.kind === "tcp") {
    await listen(server, { host: address.host, port: address.port }, addressName(address));
    return { server, close: () => closeServer(server) };
  }
  try {
    return { server, close: await listenAtPath(server, address.path, () => closeServer(server)) };
  } catch (error) {
    throw cannotListen(addressName(address), error);
  }
}

function addressName(address: ListenAddress): string {
  return address.kind === "unix" ? address.path : `${address.host}:${address.port}`;
}

async function listen(server: Server, options: ListenOptions, name: string): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  // Later errors are of single connections that could not be taken.
  server.on("error", (error) => reject(cannotListen(name, error)));
  server.listen(options, resolve);
  await promise;
}

const NO_NAME = "this machine finds no address of that name: choose one, such as 127.0.0.1 or ::1";

/** By code of the system; of a socket of the home only a shortage is likely. */
const HINTS: Readonly<Record<string, string>> = {
  EADDRINUSE: "another program listens there: end it, or choose another port, 0 for any free one",
  EADDRNOTAVAIL: "this machine has no such address: choose another one",
  EINVAL: "no program can listen on that address: choose another one",
  ENOTFOUND: NO_NAME,
  EAI_AGAIN: NO_NAME,
  EACCES:
    "choose a port from 1024 on, or allow this one: sysctl net.ipv4.ip_unprivileged_port_start",
};

function cannotListen(name: string, cause: unknown): SandboxError {
  const message = `cannot listen on ${name}`;
  const shortage = shortageOf(cause);
  if (shortage !== undefined) {
    const options = { cause, hint: shortage.hint };
    return new SandboxError("unavailable", `${message}: ${shortage.message}`, options);
  }
  const hint = HINTS[causeCode(cause) ?? ""];
  return new SandboxError("unavailable", message, { cause, ...(hint !== undefined && { hint }) });
}

/** Also one that never listened. */
async function closeServer(server: Server): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  server.close(() => resolve());
  server.closeIdleConnections();
  await promise;
}
