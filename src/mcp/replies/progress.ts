/** Progress notifications about a running process: its new output, at most once a second. */

import { StringDecoder } from "node:string_decoder";
import type { OutputStream } from "../../client/process.ts";
import { anySignal } from "../../common/any-signal.ts";
import { everyInterval, type Clock } from "../../common/clock.ts";
import { cleanOutput, formatBytes } from "../../output/text.ts";

/** Sends one notification; a number that has not increased is raised. */
export type SendProgress = (progress: number, message: string) => Promise<void>;

export interface ProgressOptions {
  /** Absent when the host asked for no progress. */
  readonly send: SendProgress | undefined;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** The protocol asks for a limited rate. */
const INTERVAL_MS = 1_000;
/** Of one message, its marks included. */
const MAX_MESSAGE_BYTES = 4_096;
/** What is left for output beside `output: ` and a mark. */
const MAX_OUTPUT_BYTES = MAX_MESSAGE_BYTES - 128;
/** Begins each further line of output, so that none can pass for a line of the server. */
const NEXT_LINE = "\n| ";
/** A terminal code at the end that is not whole yet, or a return whose line feed may follow. */
const UNFINISHED_PATTERN = new RegExp(
  `(?:${String.fromCodePoint(0x1b)}(?:\\[[0-?]{0,32}[ -/]{0,8})?|\\r)$`,
);

/** The progress of one call. Older output can be cut, and says so; the result has it. */
export class Progress implements AsyncDisposable {
  readonly #options: ProgressOptions;
  readonly #decoders = { stdout: new StringDecoder("utf8"), stderr: new StringDecoder("utf8") };
  /** Not sent yet, the newest part of both streams in order of arrival. */
  #pending = "";
  /** Bytes that came before `#pending` and will not be sent. */
  #omittedBytes = 0;
  readonly #stop = new AbortController();
  readonly #ticking: Promise<void>;
  #bytes = 0;
  #sentAtMs: number;
  #isSending = false;

  constructor(options: ProgressOptions) {
    this.#options = options;
    this.#sentAtMs = options.clock.elapsed();
    this.#ticking = options.send === undefined ? Promise.resolve() : this.#tick();
  }

  /** Tells at once that the process runs. */
  started(pid: number): void {
    this.began(`started pid ${pid}`);
  }

  /** Tells at once that the work has begun, in words of this server. */
  began(message: string): void {
    this.#emit(message);
  }

  /** Takes new output; of what no message can hold only the newest part is kept. */
  output(stream: OutputStream, bytes: Uint8Array): void {
    this.#bytes += bytes.length;
    if (this.#options.send === undefined) return;
    const skipped = Math.max(0, bytes.length - MAX_MESSAGE_BYTES);
    const decoder = this.#decoders[stream];
    if (skipped > 0) this.#omit(decoder.end().length);
    const newest = Buffer.from(bytes).subarray(skipped);
    const joined = this.#pending + decoder.write(skipped > 0 ? fromCharacter(newest) : newest);
    this.#pending = joined.slice(-MAX_MESSAGE_BYTES);
    const cut = joined.slice(0, joined.length - this.#pending.length);
    this.#omit(skipped + Buffer.byteLength(cut, "utf8"));
    if (this.#options.clock.elapsed() - this.#sentAtMs >= INTERVAL_MS) this.#flush();
  }

  #omit(bytes: number): void {
    this.#omittedBytes += bytes;
  }

  /** Ends it: nothing is sent after the reply. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#ticking;
  }

  async #tick(): Promise<void> {
    const { clock, signal } = this.#options;
    const ended = anySignal([signal, this.#stop.signal]);
    for await (const _ of everyInterval(clock, INTERVAL_MS, ended)) this.#flush();
  }

  #flush(): void {
    if (this.#isSending) return;
    const message = this.#takeOutput();
    if (message !== undefined) this.#emit(message);
  }

  /** The new output as a message; undefined while there is none that can be seen. */
  #takeOutput(): string | undefined {
    const unfinished = UNFINISHED_PATTERN.exec(this.#pending)?.[0] ?? "";
    const raw = this.#pending.slice(0, this.#pending.length - unfinished.length);
    const { text, overwritten } = cleanOutput(raw);
    // A pattern would look at the rest of a run of blanks from each of them.
    const clean = text.trimEnd();
    if (clean === "") return undefined;
    const bytes = Buffer.from(clean.replaceAll("\n", NEXT_LINE), "utf8");
    const shown = fromCharacter(bytes.subarray(Math.max(0, bytes.length - MAX_OUTPUT_BYTES)));
    const older = bytes.subarray(0, bytes.length - shown.length).toString("utf8");
    const olderBytes = Buffer.byteLength(older.replaceAll(NEXT_LINE, "\n"), "utf8");
    const omitted = this.#omittedBytes + overwritten.bytes + olderBytes;
    this.#pending = unfinished;
    this.#omittedBytes = 0;
    const mark =
      omitted > 0 ? `[… ${formatBytes(omitted)} of older output omitted …]${NEXT_LINE}` : "";
    return `output: ${mark}${shown.toString("utf8")}`;
  }

  #emit(message: string): void {
    const { send, clock } = this.#options;
    // Dropped while the host has not taken the last message.
    if (send === undefined || this.#isSending || this.#stop.signal.aborted) return;
    this.#sentAtMs = clock.elapsed();
    this.#isSending = true;
    // `#send` never rejects.
    void this.#send(send, message);
  }

  async #send(send: SendProgress, message: string): Promise<void> {
    try {
      await send(this.#bytes, message);
    } catch {
      // The host is gone; the call ends by its own signal.
    } finally {
      this.#isSending = false;
    }
  }
}

/** Bytes without the rest of a character whose beginning was cut off. */
function fromCharacter(bytes: Buffer): Buffer {
  const first = bytes.subarray(0, 4).findIndex((byte) => (byte & 0xc0) !== 0x80);
  return bytes.subarray(Math.max(0, first));
}
