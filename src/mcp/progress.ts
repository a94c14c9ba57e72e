/** Progress notifications about a running process: its last line, at most once a second. */

import { StringDecoder } from "node:string_decoder";
import type { OutputStream } from "../client/process.ts";
import type { Clock } from "../common/clock.ts";
import { oneLine, sliceText } from "../common/untrusted-text.ts";
import { cleanTerminal } from "../output/text.ts";

/** Sends one notification; the numbers of one request must increase. */
export type SendProgress = (progress: number, message: string) => Promise<void>;

export interface ProgressOptions {
  /** Absent when the host asked for no progress. */
  readonly send: SendProgress | undefined;
  readonly clock: Clock;
  readonly signal: AbortSignal;
}

/** The protocol asks for a limited rate. */
const INTERVAL_MS = 1_000;
/** Hosts give up on a silent call after half a minute at the earliest. */
const HEARTBEAT_MS = 10_000;
const MAX_MESSAGE_CHARACTERS = 200;
/** Of an unfinished line only the newest part is kept. */
const MAX_PENDING_CHARACTERS = 4_096;

/** The progress of one call. Lines can be dropped; the result has them. */
export class Progress implements AsyncDisposable {
  readonly #options: ProgressOptions;
  readonly #decoders = { stdout: new StringDecoder("utf8"), stderr: new StringDecoder("utf8") };
  readonly #pending: Record<OutputStream, string> = { stdout: "", stderr: "" };
  readonly #stop = new AbortController();
  readonly #ticking: Promise<void>;
  #bytes = 0;
  #heartbeats = 0;
  #sentAtMs: number;
  #line: string | undefined;
  #isSending = false;

  constructor(options: ProgressOptions) {
    this.#options = options;
    this.#sentAtMs = options.clock.now();
    this.#ticking = options.send === undefined ? Promise.resolve() : this.#tick();
  }

  /** Tells at once that the process runs. */
  started(pid: number): void {
    this.#emit(`started pid ${pid}`);
  }

  /** Counts output and keeps its last line. */
  output(stream: OutputStream, bytes: Uint8Array): void {
    this.#bytes += bytes.length;
    if (this.#options.send === undefined) return;
    const text = this.#pending[stream] + this.#decoders[stream].write(Buffer.from(bytes));
    const lines = text.split("\n");
    this.#pending[stream] = (lines.at(-1) ?? "").slice(-MAX_PENDING_CHARACTERS);
    this.#line = lastLine(lines) ?? this.#line;
    if (this.#options.clock.now() - this.#sentAtMs >= INTERVAL_MS) this.#flush();
  }

  /** Ends it: nothing is sent after the reply. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    await this.#ticking;
  }

  async #tick(): Promise<void> {
    const { clock, signal } = this.#options;
    const ended = AbortSignal.any([signal, this.#stop.signal]);
    while (!ended.aborted) {
      try {
        await clock.sleep(INTERVAL_MS, ended);
      } catch {
        // The call is over.
        return;
      }
      this.#flush();
    }
  }

  #flush(): void {
    if (this.#line !== undefined) {
      this.#emit(this.#line);
    } else if (this.#options.clock.now() - this.#sentAtMs >= HEARTBEAT_MS) {
      this.#heartbeats += 1;
      this.#emit("still running");
    }
  }

  #emit(message: string): void {
    const { send, clock } = this.#options;
    // Dropped while the host has not taken the last message.
    if (send === undefined || this.#isSending || this.#stop.signal.aborted) return;
    this.#line = undefined;
    this.#sentAtMs = clock.now();
    this.#isSending = true;
    // `#send` never rejects.
    void this.#send(send, message);
  }

  async #send(send: SendProgress, message: string): Promise<void> {
    try {
      await send(this.#bytes + this.#heartbeats, message);
    } catch {
      // The host is gone; the call ends by its own signal.
    } finally {
      this.#isSending = false;
    }
  }
}

/** The last line that is not empty, as a message. */
function lastLine(lines: readonly string[]): string | undefined {
  const line = lines.findLast((text) => text.trim() !== "");
  if (line === undefined) return undefined;
  const clean = cleanTerminal(line).trim();
  return clean === "" ? undefined : `output: ${sliceText(oneLine(clean), MAX_MESSAGE_CHARACTERS)}`;
}
