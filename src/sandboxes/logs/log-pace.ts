/**
 * How fast the service reads the logs of sandboxes. A program that took the place of a daemon may
 * send as much as it likes: what is over the rate stays in its socket, and a daemon that has to wait
 * drops its own oldest lines, which leaves a mark with their number.
 */

import type { Socket } from "node:net";
import { Duplex } from "node:stream";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { Clock } from "../../common/clock.ts";

/** Of one sandbox: lines, bytes as they come from the socket, and connections. */
const SANDBOX_LOG_RATES = {
  lines: { perSecond: 300, burst: 1_000 },
  bytes: { perSecond: 256 * 1024, burst: 1024 * 1024 },
  connections: { perSecond: 1, burst: 8 },
};
/** Of all sandboxes of a service together, in the order in which they ask: a tenth of a core. */
const SERVICE_LOG_RATES = {
  lines: { perSecond: 1_000, burst: 2_000 },
  bytes: { perSecond: 1024 * 1024, burst: 4 * 1024 * 1024 },
};
/** What is read in one turn of the service; calls have theirs in between. */
const TURN_LINES = 50;
const TURN_BYTES = 64 * 1024;
/** A wait costs more than a line: what a rate allows in this time is read at once after it. */
const MIN_WAIT_MS = 100;
const MS_PER_SECOND = 1_000;

/** What a reader of logs asks leave for. */
export type LogCost = Partial<Record<"lines" | "bytes" | "connections", number>>;

interface LogRate {
  readonly perSecond: number;
  /** How much may come at once after a silence. */
  readonly burst: number;
}

type LogRates = Partial<Record<keyof LogCost, LogRate>>;

export interface LogPace {
  /** Resolves when so much may be read; rejects with the signal's reason. */
  take(cost: LogCost, signal: AbortSignal): Promise<void>;
}

/** What opens paces that share the rates of the service. */
export function createLogPaces(clock: Clock): () => LogPace {
  const shared = createBudget(clock, SERVICE_LOG_RATES);
  const turn = createTurn();
  let queue: Promise<unknown> = Promise.resolve();

  async function pass(cost: LogCost, signal: AbortSignal): Promise<void> {
    signal.throwIfAborted();
    await turn(cost);
    await shared(cost, signal);
  }

  return () => {
    const own = createBudget(clock, SANDBOX_LOG_RATES);
    return {
      async take(cost, signal) {
        await own(cost, signal);
        // A daemon that died is told anew at once, whatever the others send.
        if (cost.lines === undefined && cost.bytes === undefined) return;
        // One after another, so that a flood of one sandbox is at most one step ahead of each other.
        const mine = queue.then(async () => pass(cost, signal));
        queue = mine.catch(() => undefined);
        await mine;
      },
    };
  };
}

/** Leaves the rest of the service a turn after every so much. */
function createTurn(): (cost: LogCost) => Promise<void> {
  let lines = 0;
  let bytes = 0;
  return async (cost) => {
    lines += cost.lines ?? 0;
    bytes += cost.bytes ?? 0;
    if (lines < TURN_LINES && bytes < TURN_BYTES) return;
    [lines, bytes] = [0, 0];
    await nextTurn();
  };
}

type Budget = (cost: LogCost, signal: AbortSignal) => Promise<void>;

/** A bucket for each rate; what has none costs nothing. */
function createBudget(clock: Clock, { lines, bytes, connections }: LogRates): Budget {
  const buckets = {
    lines: lines && createBucket(clock, lines),
    bytes: bytes && createBucket(clock, bytes),
    connections: connections && createBucket(clock, connections),
  };
  return async (cost, signal) => {
    if (cost.lines !== undefined) await buckets.lines?.(cost.lines, signal);
    if (cost.bytes !== undefined) await buckets.bytes?.(cost.bytes, signal);
    if (cost.connections !== undefined) await buckets.connections?.(cost.connections, signal);
  };
}

/** The level may become negative: the next caller waits until it is above zero again. */
function createBucket(clock: Clock, { perSecond, burst }: LogRate) {
  let level = burst;
  let filledAtMs = clock.elapsed();

  function fill(): void {
    const nowMs = clock.elapsed();
    const passedMs = nowMs - filledAtMs;
    filledAtMs = nowMs;
    level = Math.min(burst, level + (passedMs * perSecond) / MS_PER_SECOND);
  }

  return async (amount: number, signal: AbortSignal): Promise<void> => {
    for (fill(); level <= 0; fill()) {
      const waitMs = Math.ceil(((1 - level) * MS_PER_SECOND) / perSecond);
      await clock.sleep(Math.max(waitMs, MIN_WAIT_MS), signal);
    }
    level -= amount;
  };
}

/** Read at once; a reply in pieces of one byte each makes a thousand of it. */
const PIECE_BYTES = 8 * 1024;

/**
 * A connection of which no more is read than its pace allows: what is over it stays in the kernel's
 * buffer and then with the peer. All bytes count, the framing of HTTP included. It ends with the
 * signal, or when it is destroyed.
 */
export function paceSocket(socket: Socket, pace: LogPace, signal: AbortSignal): Duplex {
  const pieces = readPieces(socket, pace, signal);
  let isReading = false;
  const paced = new Duplex({
    readableHighWaterMark: PIECE_BYTES,
    read() {
      if (isReading) return;
      isReading = true;
      // Every fault ends the connection with itself.
      void advance();
    },
    write: (chunk: Buffer, _encoding, done) => void socket.write(chunk, done),
    final: (done) => void socket.end(done),
    destroy(error, done) {
      socket.destroy();
      done(error);
    },
  });

  // A socket that is not read reports its end by this event alone.
  socket.on("error", (error) => paced.destroy(error));

  async function advance(): Promise<void> {
    try {
      const { done, value } = await pieces.next();
      isReading = false;
      if (!paced.destroyed) paced.push(done === true ? null : value);
    } catch (error) {
      paced.destroy(error instanceof Error ? error : new Error(String(error)));
    }
  }

  return paced;
}

async function* readPieces(
  socket: Socket,
  pace: LogPace,
  signal: AbortSignal,
): AsyncGenerator<Buffer, undefined> {
  for await (const chunk of socket) {
    if (!Buffer.isBuffer(chunk)) continue;
    for (let start = 0; start < chunk.length; start += PIECE_BYTES) {
      const piece = chunk.subarray(start, start + PIECE_BYTES);
      await pace.take({ bytes: piece.length }, signal);
      yield piece;
    }
  }
  return undefined;
}
