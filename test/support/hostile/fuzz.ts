/**
 * Feeds one server with hostile bytes for a while. The seed is printed when something fails; set
 * FUZZ_SEED to see the same inputs again, and FUZZ_SECONDS for a longer time per target.
 */

import { readFileSync } from "node:fs";
import { connect } from "node:net";
import { createRandom, type Random } from "../random.ts";

/** What is sent over one connection. */
export interface FuzzInput {
  /** Written one after another, each in a turn of its own. */
  readonly pieces: readonly Uint8Array[];
  /** How the client leaves: after a half close, without one, or in the middle. */
  readonly ending: "end" | "open" | "cut";
}

export interface FuzzTarget {
  /** The process that serves it. */
  readonly pid: number;
  /** Delivers an input; resolves when there is nothing more to wait for. */
  send(input: FuzzInput, random: Random): Promise<unknown>;
  /** Asks for something ordinary; rejects unless the answer is right. */
  checkHealth(): Promise<void>;
}

/** All targets together stay at about 15 seconds in an ordinary run on a quiet machine. */
const DEFAULT_SECONDS = 0.8;
/** The time that one input may cost the thread that serves everybody. */
const MAX_CPU_MS = 250;
/** Heap that the collector has not come to yet is no leak; the daemon's own is limited. */
const MAX_GROWTH_BYTES = 96 * 1024 * 1024;
/** Where the server lives in the process of the test, whose inputs and replies grow it too. */
const MAX_SHARED_GROWTH_BYTES = 512 * 1024 * 1024;
/**
 * A run this long has all that the server keeps for its own use after a half. What it grows by in
 * the other half, it would go on growing by.
 */
const LONG_RUN_S = 10;
const MAX_LATE_GROWTH_BYTES = 24 * 1024 * 1024;
const BATCH = 25;
/** A server that says nothing for this long will not say anything more. */
const SILENCE_MS = 40;

/** The seed of this run. */
function fuzzSeed(): number {
  return Number(process.env["FUZZ_SEED"] ?? Date.now() % 1_000_000_000);
}

/** @throws Error with seed and number of the input, when the server does not stand it. */
export async function fuzz(
  target: FuzzTarget,
  generate: (random: Random) => FuzzInput,
): Promise<number> {
  const seed = fuzzSeed();
  const seconds = Number(process.env["FUZZ_SECONDS"] ?? DEFAULT_SECONDS);
  const startMs = performance.now();
  const untilMs = startMs + 1000 * seconds;
  const bytesBefore = residentBytes(target.pid);
  let bytesHalfway: number | undefined;
  let count = 0;
  const fail = (what: string, cause?: unknown): Error =>
    new Error(`FUZZ_SEED=${seed}, input ${count}: ${what}`, { cause });
  // On a busy machine too, each target gets a batch.
  while (count < BATCH || performance.now() < untilMs) {
    const cpuMs = mainThreadMs(target.pid);
    const random = createRandom(seed + count);
    const input = generate(random);
    await target.send(input, random);
    const spentMs = mainThreadMs(target.pid) - cpuMs;
    if (spentMs > MAX_CPU_MS) throw fail(`took ${Math.round(spentMs)} ms: ${preview(input)}`);
    count += 1;
    if (performance.now() > startMs + 500 * seconds) bytesHalfway ??= residentBytes(target.pid);
    if (count % BATCH !== 0) continue;
    await target.checkHealth().catch((error: unknown) => {
      throw fail(`no healthy answer afterwards: ${preview(input)}`, error);
    });
  }
  await target.checkHealth();
  const growth = residentBytes(target.pid) - bytesBefore;
  const isShared = target.pid === process.pid;
  const limit = isShared ? MAX_SHARED_GROWTH_BYTES : MAX_GROWTH_BYTES;
  if (growth > limit) throw fail(`grew by ${growth} bytes`);
  const lateGrowth = residentBytes(target.pid) - (bytesHalfway ?? bytesBefore);
  const isLeak = seconds >= LONG_RUN_S && lateGrowth > MAX_LATE_GROWTH_BYTES;
  if (isLeak && !isShared) throw fail(`grew by ${lateGrowth} bytes in its second half`);
  return count;
}

/** Sends an input and returns what came back, once the server has closed or fallen silent. */
export async function deliver(socketPath: string, input: FuzzInput): Promise<Buffer> {
  const { promise, resolve } = Promise.withResolvers<void>();
  const replies: Buffer[] = [];
  const socket = connect({ path: socketPath, allowHalfOpen: true });
  socket.on("data", (chunk: Buffer) => replies.push(chunk));
  socket.setTimeout(SILENCE_MS, () => socket.destroy());
  // A connection that the server resets is one of its answers.
  socket.on("error", () => socket.destroy());
  socket.once("end", () => socket.destroy());
  socket.once("close", resolve);
  for (const [index, piece] of input.pieces.entries()) {
    if (index > 0) await new Promise(setImmediate);
    socket.write(piece);
  }
  if (input.ending === "end") socket.end();
  if (input.ending === "cut") setImmediate(() => socket.destroy());
  await promise;
  return Buffer.concat(replies);
}

/** The bytes cut at up to three places, sometimes one by one. */
export function split(random: Random, bytes: Uint8Array): Uint8Array[] {
  if (random.once(3)) return [bytes];
  const cuts = [0, ...Array.from({ length: 3 }, () => random.below(bytes.length + 1))];
  const places = [...cuts, bytes.length].toSorted((left, right) => left - right);
  return places.slice(1).map((end, index) => bytes.subarray(places[index], end));
}

/** Time that the main thread of a process spent computing, whatever else the machine does. */
export function mainThreadMs(pid: number): number {
  const [nanoseconds] = readFileSync(`/proc/${pid}/task/${pid}/schedstat`, "utf8").split(" ");
  return Number(nanoseconds) / 1e6;
}

export function residentBytes(pid: number): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return 1024 * Number(/^VmRSS:\s+(\d+) kB$/m.exec(status)?.[1]);
}

function preview({ pieces, ending }: FuzzInput): string {
  const bytes = Buffer.concat(pieces);
  return `${ending} ${bytes.length} ${JSON.stringify(bytes.toString("latin1", 0, 600))}`;
}
