/** What a program in the place of a daemon may answer to whoever reads its log. */

import { randomUUID } from "node:crypto";
import type { Random } from "../random.ts";

/** A reply to `GET /logs`. */
export interface LogFlood {
  readonly name: string;
  /** The first bytes. */
  readonly head: Buffer;
  /** What comes then, again and again. */
  readonly body: Buffer;
  /** Bytes after which the connection ends; the next one gets the same. */
  readonly endsAfter: number;
}

const KIB = 1_024;
const LONG = 150 * KIB;
const TOO_LONG = 300 * KIB;
const PIECE = 64 * KIB;
/** Many times what a service reads at once; it comes again with the next connection. */
const MOST = 8 * KIB * KIB;

interface Shape {
  readonly name: string;
  body(random: Random): Buffer;
  readonly head?: string;
  /** Framed as HTTP chunks of so many bytes; without it the connection's end is the body's. */
  readonly chunkBytes?: number;
  readonly endsAfter?: number;
}

function lineOf(random: Random, message: string, more: object = {}): string {
  const number = random.once(3) ? `${random.below(1 << 30)} ` : "";
  const timestamp = new Date(random.below(1 << 30) * 1_000).toISOString();
  return `${number}${JSON.stringify({ level: "info", timestamp, message, ...more })}\n`;
}

const lines = (random: Random) =>
  Buffer.from(Array.from({ length: 400 }, () => lineOf(random, "x")).join(""));
const long = (random: Random) => Buffer.from(lineOf(random, "x".repeat(LONG)));
const wide = (random: Random) => {
  const fields = Array.from({ length: 5_000 }, (_, index) => [`k${index}`, index] as const);
  return Buffer.from(lineOf(random, "wide", Object.fromEntries(fields)));
};

/** All of them; a case is one of these with a seed. */
export const FLOOD_SHAPES: readonly Shape[] = [
  { name: "empty lines", body: () => Buffer.alloc(PIECE, "\n") },
  { name: "lines of one byte", body: () => Buffer.alloc(PIECE, "x\n") },
  { name: "log lines", body: lines },
  { name: "long lines", body: long },
  { name: "lines that are too long", body: () => Buffer.from(`${"x".repeat(TOO_LONG)}\n`) },
  { name: "no newline", body: () => Buffer.alloc(PIECE, "x") },
  { name: "no JSON", body: () => Buffer.from(`${"{".repeat(100)}\n`.repeat(100)) },
  { name: "no UTF-8", body: (random) => Buffer.concat([random.bytes(4_000), Buffer.from("\n")]) },
  { name: "deep JSON", body: () => Buffer.from(`${"[".repeat(LONG)}\n`) },
  { name: "wide JSON", body: wide },
  {
    name: "prototypes",
    body: (random) => Buffer.from(lineOf(random, "x").replace("{", '{"__proto__":{"polluted":1},')),
  },
  { name: "control characters", body: (random) => Buffer.from(lineOf(random, "\0".repeat(8_000))) },
  { name: "new connections", body: lines, endsAfter: 1 },
  { name: "new connections after some lines", body: lines, endsAfter: 100 * KIB },
  { name: "chunks of one byte", body: lines, chunkBytes: 1 },
  { name: "chunks of a few bytes", body: lines, chunkBytes: 7 },
  { name: "chunks", body: lines, chunkBytes: 4_096 },
  { name: "interim replies", head: "", body: () => Buffer.from("HTTP/1.1 102 A\r\n\r\n") },
  {
    name: "a head without an end",
    head: "HTTP/1.1 200 OK\r\n",
    body: () => Buffer.from("a: b\r\n"),
  },
  {
    name: "another protocol",
    head: "HTTP/1.1 101 A\r\nConnection: upgrade\r\nUpgrade: b\r\n\r\n",
    body: lines,
  },
  { name: "no HTTP", head: "", body: (random) => random.bytes(512) },
  { name: "an error", head: "HTTP/1.1 500 A\r\n\r\n", body: lines },
  { name: "a drip", body: () => Buffer.from("x"), endsAfter: 200 },
  {
    name: "long and short in turn",
    body: (random) => Buffer.concat([long(random), Buffer.alloc(KIB, "\n"), lines(random)]),
  },
];

/** One case of a shape. */
export function makeFlood(random: Random, shape: Shape): LogFlood {
  const { name, chunkBytes, endsAfter = MOST } = shape;
  // A new name makes every line new; an old one is what a daemon has that lost its connection.
  const id = random.once(2) ? randomUUID() : "11111111-1111-1111-1111-111111111111";
  const framing = chunkBytes === undefined ? "" : "Transfer-Encoding: chunked\r\n";
  const usual = `HTTP/1.1 200 OK\r\nX-Daemon-Id: ${id}\r\n${framing}\r\n`;
  const bytes = shape.body(random);
  const body = chunkBytes === undefined ? bytes : inChunks(bytes, chunkBytes);
  return { name, head: Buffer.from(shape.head ?? usual), body: filled(body), endsAfter };
}

function inChunks(bytes: Buffer, size: number): Buffer {
  const parts: string[] = [];
  for (let start = 0; start < bytes.length; start += size) {
    const piece = bytes.subarray(start, start + size).toString("latin1");
    parts.push(`${piece.length.toString(16)}\r\n${piece}\r\n`);
  }
  return Buffer.from(parts.join(""), "latin1");
}

/** Often enough that a write is worth its call; a drip stays one. */
function filled(body: Buffer): Buffer {
  if (body.length <= 1 || body.length >= PIECE) return body;
  return Buffer.concat(Array.from({ length: Math.floor(PIECE / body.length) }, () => body));
}
