/**
 * Turns of the event loop for those who read a stream. Bytes that are there are read without one: a
 * peer that sends many small messages would keep the whole program busy with them, for seconds.
 */

import type { Socket } from "node:net";
import type { Readable, Writable } from "node:stream";
import { setImmediate as nextTurn, setTimeout as delay } from "node:timers/promises";

/** What all readers take together before others have their turn. */
const MAX_SHARE_MS = 10;
/** Beyond it a turn was one of many small pieces, which Node cannot stop to read in the middle. */
const MAX_TURN_MS = 15;

/** Readers that used up their share go on one after the other. */
const waiting: (() => void)[] = [];

/** For one reader: what it awaits before its next message; undefined while it may go on at once. */
export function createLoopTurns(): () => Promise<void> | undefined {
  let beganAtMs = performance.now();
  const wait = async (): Promise<void> => {
    const { promise, resolve } = Promise.withResolvers<void>();
    waiting.push(resolve);
    // `passReaders` never rejects.
    if (waiting.length === 1) void passReaders();
    await promise;
    beganAtMs = performance.now();
  };
  return () =>
    performance.now() - beganAtMs < MAX_SHARE_MS / (1 + waiting.length) ? undefined : wait();
}

/** One in each turn. After a long turn the rest of the program has as long for itself. */
async function passReaders(): Promise<void> {
  await nextTurn();
  for (let pass = waiting[0]; pass !== undefined; pass = waiting[0]) {
    const before = process.threadCpuUsage();
    pass();
    await nextTurn();
    const { user, system } = process.threadCpuUsage(before);
    const tookMs = (user + system) / MICROSECONDS_PER_MS;
    if (tookMs > MAX_TURN_MS) await delay(tookMs);
    waiting.shift();
  }
}

const MICROSECONDS_PER_MS = 1_000;

/**
 * For a pipeline: the chunks of a stream, of which those that are there once the target has taken what
 * came before come as one. A small chunk that waits costs hundreds of times what is in it.
 */
export function inLoopTurns(target: Writable) {
  const ready = () => (target.writableLength > 0 ? untilTaken(target) : undefined);
  return (stream: Readable) => chunksInTurns(stream, ready);
}

/** The chunks of a stream, those that are there at once as one. It stays whole when its reader stops. */
export async function* chunksInTurns(
  stream: Readable,
  ready: () => Promise<void> | undefined = () => undefined,
): AsyncGenerator<Buffer, void> {
  const turns = createLoopTurns();
  const chunks: AsyncIterable<Buffer> = stream.iterator({ destroyOnReturn: false });
  for await (const chunk of chunks) {
    await turns();
    await ready();
    // Node joins them by itself up to version 24.
    const rest: Buffer | null = stream.read(stream.readableLength);
    yield rest === null ? chunk : Buffer.concat([chunk, rest]);
  }
}

/** A write of no bytes is over when those before it are, also where they fail. */
async function untilTaken(target: Writable): Promise<void> {
  const { promise, resolve } = Promise.withResolvers<void>();
  target.once("close", resolve);
  target.write("", () => resolve());
  await promise;
  target.off("close", resolve);
}

/**
 * Of a message, what Node keeps before it stops to read: as many bytes as its socket does by default,
 * and each of them can be a chunk with an object of its own.
 */
export const MAX_KEPT_BYTES = 4_096;

/** The socket, of whose messages no more is kept. */
export function keepingLittle(socket: Socket): Socket {
  return Object.defineProperty(socket, "readableHighWaterMark", { value: MAX_KEPT_BYTES });
}
