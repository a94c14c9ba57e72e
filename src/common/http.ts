/** What HTTP servers and clients here share: bounded bodies, and plain JSON replies. */

import type { IncomingMessage, ServerResponse } from "node:http";
import { createByteBuffer } from "./bytes.ts";
import { SandboxError } from "./errors.ts";
import { chunksInTurns } from "./loop-turns.ts";

/**
 * The whole body of a request, at most `maxBytes`.
 * @throws SandboxError resource_exhausted when it is larger, canceled when the peer vanished.
 */
export async function readBody(request: IncomingMessage, maxBytes: number): Promise<Buffer> {
  // Stopping early must not destroy the request: the refusal goes out on its connection.
  return gather(request, request.iterator({ destroyOnReturn: false }), { maxBytes });
}

/**
 * As `readBody`, leaving turns to other requests, however small the chunks are. `admit` is told of each
 * piece before it is kept, and may refuse it with a SandboxError.
 */
export async function readBodyInTurns(
  request: IncomingMessage,
  maxBytes: number,
  admit?: (bytes: number) => void,
): Promise<Buffer> {
  return gather(request, chunksInTurns(request), { maxBytes, admit });
}

interface BodyLimits {
  readonly maxBytes: number;
  readonly admit?: ((bytes: number) => void) | undefined;
}

async function gather(
  request: IncomingMessage,
  chunks: AsyncIterable<Buffer>,
  { maxBytes, admit }: BodyLimits,
): Promise<Buffer> {
  const whole = createByteBuffer();
  try {
    for await (const chunk of chunks) {
      if (whole.length + chunk.length > maxBytes) {
        throw new SandboxError("resource_exhausted", `body exceeds ${maxBytes} bytes`);
      }
      admit?.(chunk.length);
      whole.add(chunk);
    }
  } catch (error) {
    if (error instanceof SandboxError) {
      // A client that is still sending does not look at replies.
      discardRest(request);
      throw error;
    }
    throw new SandboxError("canceled", "request ended before its body", { cause: error });
  }
  return whole.take();
}

/**
 * The whole of a reply, as its client reads it; `subject` begins the message of a failure.
 * @throws SandboxError resource_exhausted when it is larger than `maxBytes`; what is left is not
 *   read. A failure of the body itself is passed on.
 */
export async function readBounded(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
  subject: string,
): Promise<Buffer> {
  const whole = createByteBuffer();
  for await (const chunk of body) {
    if (whole.length + chunk.length > maxBytes) {
      throw new SandboxError("resource_exhausted", `${subject}: reply exceeds ${maxBytes} bytes`);
    }
    whole.add(chunk);
  }
  return whole.take();
}

/** The beginning of a reply, at most `maxBytes`, such as of a refusal; what is left is not read. */
export async function readBeginning(
  body: AsyncIterable<Uint8Array>,
  maxBytes: number,
): Promise<Buffer> {
  const whole = createByteBuffer();
  for await (const chunk of body) {
    whole.add(chunk.subarray(0, maxBytes - whole.length));
    if (whole.length >= maxBytes) break;
  }
  return whole.take();
}

/** Sends a JSON reply with its length, or none at all once the reply has begun. */
export function sendJson(
  response: ServerResponse,
  status: number,
  reply: { readonly body: unknown; readonly headers?: Readonly<Record<string, string>> },
): void {
  if (response.headersSent || response.destroyed) return;
  const payload = Buffer.from(JSON.stringify(reply.body));
  response.writeHead(status, {
    "content-type": "application/json; charset=utf-8",
    "content-length": payload.length,
    "x-content-type-options": "nosniff",
    // Replies have tokens and what one team has, and caches know no other key than that of Authorization.
    "cache-control": "no-store",
    ...reply.headers,
  });
  response.end(payload);
}

const MAX_DISCARD_MS = 5_000;

const discarded = new WeakSet<IncomingMessage>();

/**
 * Reads for a while what is still coming of a request that was answered early: were its connection closed
 * at once, its client would find that out while it sends, and never see the answer.
 */
export function discardRest(request: IncomingMessage): void {
  if ((request.complete && request.readableLength === 0) || request.destroyed) return;
  if (discarded.has(request)) return;
  discarded.add(request);
  const timer = setTimeout(() => request.destroy(), MAX_DISCARD_MS);
  request.once("close", () => clearTimeout(timer));
  void readAll(request);
}

async function readAll(request: IncomingMessage): Promise<void> {
  try {
    for await (const _ of chunksInTurns(request)) continue;
  } catch {
    // The client has left.
  }
}

/** The user of a Basic header, without its password; undefined for any other header. */
export function basicUser(authorization: string | undefined): string | undefined {
  const match = /^basic\s+([A-Za-z0-9+/=_-]+)\s*$/i.exec(authorization ?? "");
  const encoded = match?.[1];
  if (encoded === undefined) return undefined;
  const [user] = Buffer.from(encoded, "base64").toString("utf8").split(":", 1);
  return user;
}
