/** A server that frames requests by the letter of RFC 9112 and keeps every one it was sent. */

import { once } from "node:events";
import { createServer, type Socket } from "node:net";
import { listenOnLoopback } from "../loopback.ts";

export interface StrictRequest {
  readonly method: string;
  readonly target: string;
  /** The head as it came, without its first line. */
  readonly head: string;
  readonly body: string;
}

export interface StrictServer extends AsyncDisposable {
  readonly port: number;
  /** The requests so far once every connection is closed; they are forgotten then. */
  take(): Promise<readonly StrictRequest[]>;
  /** The bytes of the connections that were taken last. */
  bytes(): string;
}

/** Ends a body: a request that says it has one is answered when this has come. */
export const BODY_MARK = "x-mark: end-of-body";
/** Announces the mark, in a header that passes every gateway. */
export const HAS_BODY = "x-has-body: yes";

const REPLY = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";
const SWITCH = "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n";
const LOST_BODY_MS = 300;

export async function startStrictServer(): Promise<StrictServer> {
  let requests: StrictRequest[] = [];
  let kept = "";
  let last = "";
  const open = new Set<Socket>();
  const server = createServer((socket) => {
    open.add(socket);
    let text = "";
    let answered = 0;
    const look = () => {
      const found = parseRequests(text);
      for (const { head } of found.slice(answered)) {
        answered += 1;
        if (/^upgrade: /im.test(head)) socket.end(SWITCH);
        else socket.write(REPLY);
      }
    };
    socket.on("error", () => socket.destroy());
    socket.on("data", (chunk: Buffer) => {
      text += chunk.toString("latin1");
      kept += chunk.toString("latin1");
      const isWhole = !text.includes(HAS_BODY) || text.includes(BODY_MARK);
      if (isWhole) look();
      // Only where a gateway lost the body: what else it may send has this long to come.
      else if (parseRequests(text).length > 0) setTimeout(look, LOST_BODY_MS);
    });
    socket.once("close", () => {
      requests.push(...parseRequests(text));
      open.delete(socket);
    });
  });
  const port = await listenOnLoopback(server);
  return {
    port,
    async take() {
      for (const socket of open) await once(socket, "close");
      const taken = requests;
      requests = [];
      last = kept;
      kept = "";
      return taken;
    },
    bytes: () => last,
    async [Symbol.asyncDispose]() {
      const closed = once(server, "close");
      server.close();
      for (const socket of open) socket.destroy();
      await closed;
    },
  };
}

/** Every whole request in the bytes; what is none is told as one without a method. */
function parseRequests(text: string): StrictRequest[] {
  const found: StrictRequest[] = [];
  for (let rest = text; rest !== "";) {
    const end = rest.indexOf("\r\n\r\n");
    if (end === -1) break;
    const [line = "", ...lines] = rest.slice(0, end).split("\r\n");
    const [, method = "", target = ""] = /^([A-Z-]+) (\S+) HTTP\/1\.1$/.exec(line) ?? [];
    if (method === "") return [...found, { method, target, head: rest, body: "" }];
    const head = lines.join("\r\n");
    const framed = readBody(head, rest.slice(end + 4));
    if (framed === undefined) break;
    found.push({ method, target, head, body: framed.body });
    rest = framed.rest;
  }
  return found;
}

/** The body that a head announces; undefined while it is not whole. */
function readBody(head: string, rest: string): { body: string; rest: string } | undefined {
  if (/^transfer-encoding:\s*chunked\s*$/im.test(head)) return readChunks(rest);
  const length = Number(/^content-length:\s*([0-9]+)\s*$/im.exec(head)?.[1] ?? 0);
  if (rest.length < length) return undefined;
  return { body: rest.slice(0, length), rest: rest.slice(length) };
}

function readChunks(text: string): { body: string; rest: string } | undefined {
  let body = "";
  for (let at = 0; ;) {
    const [line, digits = ""] = /^([0-9a-f]+)(?:;[^\r\n]*)?\r\n/i.exec(text.slice(at)) ?? [];
    if (line === undefined) return undefined;
    const size = Number.parseInt(digits, 16);
    const start = at + line.length;
    if (size === 0) {
      const trailer = /^(?:[^\r\n]+\r\n)*\r\n/.exec(text.slice(start))?.[0];
      return trailer === undefined ? undefined : { body, rest: text.slice(start + trailer.length) };
    }
    if (text.length < start + size + 2) return undefined;
    body += text.slice(start, start + size);
    at = start + size + 2;
  }
}
