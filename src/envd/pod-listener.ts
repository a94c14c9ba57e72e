/**
 * The daemon's one listener in a Pod: a TCP port that programs of the sandbox and its neighbours may
 * reach. A connection is handed to the control server or to the public one after a pass that fronts
 * alone can sign; the daemon opens no other port to the network.
 */

import { createPublicKey, type KeyObject } from "node:crypto";
import { createServer, type IncomingMessage, type Server } from "node:http";
import type { Duplex } from "node:stream";
import { endConnection } from "../common/end-connection.ts";
import {
  POD_PORT,
  POD_PROTOCOL,
  POD_TARGETS,
  BASELINE_WORD,
  PASS_HEADER,
  readPass,
  type PodTarget,
} from "../wire/pod-listener.ts";
import type { Programs } from "./programs.ts";
import type { SettingsHolder } from "./settings.ts";
import { createUsedPasses, type UsedPasses } from "./used-passes.ts";

/** A connection without a complete head is cut by then; passes fit into few bytes. */
const HEADERS_MS = 10_000;
const MAX_HEADER_BYTES = 4_096;
/** Above this the descriptors of the sandbox run out. */
const MAX_CONNECTIONS = 1_024;

/** What the command line of a daemon in a Pod says. */
export interface PodIdentity {
  readonly podName: string;
  /** Of the fronts, Ed25519, as SubjectPublicKeyInfo. */
  readonly key: KeyObject;
  /** Whether snapshots may be asked for. */
  readonly keepsBaseline: boolean;
}

/** Undefined for a daemon that inherits its sockets. */
export function readPodIdentity(words: readonly string[]): PodIdentity | undefined {
  const at = words.indexOf("pod");
  const [podName, key, word] = at === -1 ? [] : words.slice(at + 1);
  if (podName === undefined || key === undefined) return undefined;
  const bytes = Buffer.from(key, "base64url");
  return {
    podName,
    key: createPublicKey({ key: bytes, format: "der", type: "spki" }),
    keepsBaseline: word === BASELINE_WORD,
  };
}

export interface PodListenerOptions {
  readonly identity: PodIdentity;
  readonly publicServer: Server;
  readonly controlServer: Server;
  /** Until the front has told the daemon its sandbox, nothing public is served. */
  readonly settings: Pick<SettingsHolder, "isTold">;
  /** While they are stopped nothing public is served either. */
  readonly programs?: Pick<Programs, "areStopped"> | undefined;
}

/** The listener; it does not listen yet. */
export function createPodListener(options: PodListenerOptions): Server {
  const used = createUsedPasses();
  const server = createServer({
    headersTimeout: HEADERS_MS,
    requestTimeout: HEADERS_MS,
    connectionsCheckingInterval: HEADERS_MS,
    maxHeaderSize: MAX_HEADER_BYTES,
  });
  server.maxConnections = MAX_CONNECTIONS;
  server.on("request", (_request, response) => {
    response.on("error", () => undefined);
    response.writeHead(401, { connection: "close" }).end();
  });
  server.on("upgrade", (request, socket, head) => {
    socket.on("error", () => socket.destroy());
    const outcome = admit(request, options, used);
    if (typeof outcome === "string") {
      endConnection(
        socket.resume(),
        `HTTP/1.1 ${outcome}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n`,
      );
      return;
    }
    handOver(outcome, socket, head);
  });
  // A server that cannot listen emits this before a caller waits for it.
  server.on("error", () => undefined);
  return server;
}

/** Every address of the Pod: without a host those of both families. */
export function listenAddress() {
  return { port: POD_PORT } as const;
}

/** The server that a connection is for, or the line of its refusal. */
function admit(
  request: IncomingMessage,
  { identity, publicServer, controlServer, settings, programs }: PodListenerOptions,
  used: UsedPasses,
): Server | string {
  const target = toTarget(request.url);
  const pass = request.headers[PASS_HEADER];
  if (target === undefined || typeof pass !== "string") return "401 Unauthorized";
  const subject = readPass(pass, { podName: identity.podName, target }, identity.key);
  if (subject === undefined) return "401 Unauthorized";
  if (!used.take(subject.nonce, subject.atMs)) return "403 Forbidden";
  if (target === "/control") return controlServer;
  if (programs?.areStopped === true) return "503 Service Unavailable";
  return settings.isTold ? publicServer : "409 Conflict";
}

function toTarget(url: string | undefined): PodTarget | undefined {
  return POD_TARGETS.find((target) => target === url);
}

function handOver(server: Server, socket: Duplex, head: Buffer): void {
  socket.removeAllListeners("error");
  socket.write(
    `HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${POD_PROTOCOL}\r\n\r\n`,
  );
  if (head.length > 0) socket.unshift(head);
  server.emit("connection", socket);
}
