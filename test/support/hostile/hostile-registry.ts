/**
 * A registry that answers as a test says, listeners that nobody may be led to, and a name server that
 * changes its mind. All of it is on this machine.
 */

import { createSocket } from "node:dgram";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { gzipSync } from "node:zlib";
import { digestOf, shellLayer } from "../images/oci-layout.ts";
import { listenOnLoopback } from "../loopback.ts";

const MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json";
export const INDEX_TYPE = "application/vnd.oci.image.index.v1+json";

export interface ImageParts {
  readonly layer: Buffer;
  readonly config: Buffer;
  readonly layerFacts: Readonly<Record<string, unknown>>;
  readonly configFacts: Readonly<Record<string, unknown>>;
}

/** An image of one layer that a registry has; the facts are those of its manifest. */
export async function makeImageParts(): Promise<ImageParts> {
  const archive = await shellLayer();
  const layer = gzipSync(archive, { level: 1 });
  const architecture = process.arch === "arm64" ? "arm64" : "amd64";
  const rootfs = { type: "layers", diff_ids: [digestOf(archive)] };
  const config = Buffer.from(JSON.stringify({ architecture, os: "linux", config: {}, rootfs }));
  return {
    layer,
    config,
    layerFacts: factsOf(layer, "layer.v1.tar+gzip"),
    configFacts: factsOf(config, "config.v1+json"),
  };
}

function factsOf(blob: Buffer, mediaType: string) {
  return {
    mediaType: `application/vnd.oci.image.${mediaType}`,
    digest: digestOf(blob),
    size: blob.length,
  };
}

export type Reply = (request: IncomingMessage, response: ServerResponse) => void;

export interface FakeRegistry extends AsyncDisposable {
  /** `127.0.0.1:PORT`. */
  readonly host: string;
  /** Requests so far. */
  asked(): number;
  /** What is answered from now on; undefined lets the parts of the image be served. */
  serve(parts: ImageParts, options?: { manifest?: unknown; type?: string; reply?: Reply }): void;
}

const refuse: Reply = (_request, response) => void response.writeHead(404).end();

/** Serves manifest, configuration and layer unless `reply` has ended the response. */
export async function startFakeRegistry(): Promise<FakeRegistry> {
  let answer = refuse;
  let asked = 0;
  const server = createServer((request, response) => {
    asked += 1;
    response.on("error", () => undefined);
    answer(request, response);
  });
  const port = await listenOnLoopback(server);
  return {
    host: `127.0.0.1:${port}`,
    asked: () => asked,
    serve(parts, { manifest, type = MANIFEST_TYPE, reply } = {}) {
      const { configFacts: config, layerFacts } = parts;
      const usual = { schemaVersion: 2, mediaType: type, config, layers: [layerFacts] };
      const text = Buffer.from(JSON.stringify(manifest ?? usual));
      answer = (request, response) => {
        reply?.(request, response);
        if (response.headersSent) return;
        const url = request.url ?? "";
        if (url === "/v2/") {
          response.end("{}");
          return;
        }
        const isManifest = url.includes("/manifests/");
        const blob = isManifest
          ? text
          : [parts.layer, parts.config].find((each) => url.endsWith(digestOf(each)));
        if (blob === undefined) {
          response.writeHead(404).end();
          return;
        }
        response.writeHead(200, {
          "content-type": isManifest ? type : "application/octet-stream",
          "content-length": blob.length,
          "docker-content-digest": digestOf(blob),
        });
        response.end(blob);
      };
    },
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

export interface Canary extends AsyncDisposable {
  readonly port: number;
  /** Connections so far. */
  touched(): number;
}

/** Listens on every address of this machine; nothing may connect. */
export async function startCanary(): Promise<Canary> {
  let touched = 0;
  const server = createServer((_request, response) => void response.end("secret"));
  server.on("connection", () => (touched += 1));
  server.listen(0, "::");
  await once(server, "listening");
  // A server on TCP has such an address.
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion
  const { port } = server.address() as AddressInfo;
  return {
    port,
    touched: () => touched,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
    },
  };
}

export interface FakeNames extends AsyncDisposable {
  /** `127.0.0.1:PORT`. */
  readonly address: string;
}

const TYPE_A = 1;

/** Each name has its answers, one after the other; the last one stays. Others do not exist. */
export async function startFakeNames(
  names: Readonly<Record<string, readonly string[]>>,
): Promise<FakeNames> {
  const socket = createSocket("udp4");
  const asked = new Map<string, number>();
  socket.on("message", (message, peer) => {
    const labels: string[] = [];
    let at = 12;
    for (let length = message[at] ?? 0; length > 0; length = message[at] ?? 0) {
      labels.push(message.toString("latin1", at + 1, at + 1 + length));
      at += length + 1;
    }
    const isAddress = message.readUInt16BE(at + 1) === TYPE_A;
    const name = labels.join(".").toLowerCase();
    const answers = names[name];
    const count = asked.get(name) ?? 0;
    if (isAddress) asked.set(name, count + 1);
    const address = isAddress ? answers?.[Math.min(count, answers.length - 1)] : undefined;
    const head = Buffer.alloc(12);
    message.copy(head, 0, 0, 2);
    head.writeUInt16BE(answers === undefined ? 0x8183 : 0x8180, 2);
    head.writeUInt16BE(1, 4);
    head.writeUInt16BE(address === undefined ? 0 : 1, 6);
    const question = message.subarray(12, at + 5);
    const record =
      address === undefined
        ? []
        : [
            Buffer.from([
              0xc0,
              12,
              0,
              1,
              0,
              1,
              0,
              0,
              0,
              0,
              0,
              4,
              ...address.split(".").map(Number),
            ]),
          ];
    socket.send(Buffer.concat([head, question, ...record]), peer.port, peer.address);
  });
  socket.bind(0, "127.0.0.1");
  await once(socket, "listening");
  return {
    address: `127.0.0.1:${socket.address().port}`,
    async [Symbol.asyncDispose]() {
      socket.close();
    },
  };
}
