/** What this instance saw of each sandbox's processes, as one text per sandbox. */

import { StringDecoder } from "node:string_decoder";
import type { OutputStream } from "../client/process.ts";
import type { Clock } from "../common/clock.ts";
import { quoteUntrusted } from "../common/log.ts";
import { ByteRing } from "./output-buffer.ts";
import { cleanTerminal, cutAfter, formatBytes } from "./text.ts";

/** The newest part of a sandbox's log that is kept; whole outputs are kept per process. */
const LOG_BYTES = 256 * 1024;
/** The newest part of it that one read returns. */
const READ_BYTES = 100_000;
/** Logs that are kept at once; beyond it the one that changed least recently goes. */
const MAX_LOGS = 128;
/** How long the log of an ended sandbox can still be read. */
const RETENTION_MS = 15 * 60_000;
const UPDATE_INTERVAL_MS = 1_000;
const LIST_INTERVAL_MS = 500;

/** Whoever wants to know what changed; called at a limited rate. */
export interface LogObserver {
  updated(uri: string): void;
  listChanged(): void;
}

export interface LogSummary {
  readonly sandboxId: string;
  readonly uri: string;
  readonly sizeBytes: number;
  readonly changedAtMs: number;
}

interface SandboxLog {
  readonly sandboxId: string;
  readonly ring: ByteRing;
  readonly decoders: Map<string, StringDecoder>;
  /** Who wrote last, so that a change of voice gets a line of its own. */
  voice: string;
  endsWithNewline: boolean;
  changedAtMs: number;
  /** Undefined while the sandbox lives. */
  endedAtMs: number | undefined;
}

/** The address of a sandbox's log. */
export function logUri(sandboxId: string): string {
  return `sandbox:///${sandboxId}/log`;
}

/** The logs of all sandboxes that this instance made or used. */
export class SandboxLogs implements AsyncDisposable {
  readonly #clock: Clock;
  readonly #logs = new Map<string, SandboxLog>();
  readonly #observers = new Set<LogObserver>();
  readonly #stop = new AbortController();
  readonly #pending = new Map<string, Promise<void>>();
  readonly #notifiedAtMs = new Map<string, number>();

  constructor(clock: Clock) {
    this.#clock = clock;
  }

  /** Makes the log of a sandbox that is used now. */
  open(sandboxId: string): void {
    const known = this.#logs.get(sandboxId);
    if (known !== undefined && known.endedAtMs === undefined) return;
    if (known === undefined) this.#make(sandboxId);
    else known.endedAtMs = undefined;
    this.#listChanged();
  }

  /** The sandbox is gone; its log stays readable for a while. */
  close(sandboxId: string): void {
    const log = this.#logs.get(sandboxId);
    if (log === undefined || log.endedAtMs !== undefined) return;
    log.endedAtMs = this.#clock.now();
    this.#listChanged();
  }

  /** Output of a process, as it comes. */
  output(sandboxId: string, processId: string, chunk: { stream: OutputStream; bytes: Uint8Array }) {
    const log = this.#logs.get(sandboxId);
    if (log === undefined) return;
    const voice = `${processId} ${chunk.stream}`;
    const decoder = log.decoders.get(voice) ?? new StringDecoder("utf8");
    log.decoders.set(voice, decoder);
    const text = decoder.write(Buffer.from(chunk.bytes));
    if (text === "") return;
    if (log.voice !== voice) writeHeading(log, voice);
    log.voice = voice;
    write(log, text);
    this.#changed(log);
  }

  /** A line about a process: that it began, or how it ended. */
  note(sandboxId: string, processId: string, event: string): void {
    const log = this.#logs.get(sandboxId);
    if (log === undefined) return;
    log.voice = "";
    writeHeading(log, `${processId} ${quoteUntrusted(event)}`);
    this.#changed(log);
  }

  /** Forgets what was kept for the output of a process that ended. */
  finish(sandboxId: string, processId: string): void {
    const decoders = this.#logs.get(sandboxId)?.decoders;
    decoders?.delete(`${processId} stdout`);
    decoders?.delete(`${processId} stderr`);
  }

  /** The newest part of a log; undefined when there is none. */
  read(sandboxId: string): string | undefined {
    this.#expire();
    const log = this.#logs.get(sandboxId);
    if (log === undefined) return undefined;
    const { ring } = log;
    if (ring.end === 0) return "(no process of this sandbox has written anything to this server)\n";
    const kept = ring.slice(Math.max(ring.start, ring.end - READ_BYTES), ring.end);
    const bytes = ring.end > kept.length ? kept.subarray(cutAfter(kept, 1)) : kept;
    const omitted = ring.end - bytes.length;
    const note = `[… ${formatBytes(omitted)} of older output omitted; get_process_output reads one process]\n`;
    return `${omitted > 0 ? note : ""}${cleanTerminal(bytes.toString("utf8"))}`;
  }

  /** The logs of sandboxes that live, newest change first. */
  list(): readonly LogSummary[] {
    this.#expire();
    return [...this.#logs.values()]
      .filter((log) => log.endedAtMs === undefined)
      .toSorted((left, right) => right.changedAtMs - left.changedAtMs)
      .map((log) => ({
        sandboxId: log.sandboxId,
        uri: logUri(log.sandboxId),
        sizeBytes: log.ring.end - log.ring.start,
        changedAtMs: log.changedAtMs,
      }));
  }

  /** Tells the observer of changes until the returned function is called. */
  observe(observer: LogObserver): () => void {
    this.#observers.add(observer);
    return () => void this.#observers.delete(observer);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stop.abort();
    this.#observers.clear();
    await Promise.all(this.#pending.values());
  }

  #make(sandboxId: string): void {
    const changedAtMs = this.#clock.now();
    const ring = new ByteRing(LOG_BYTES);
    const decoders = new Map<string, StringDecoder>();
    const state = { voice: "", endsWithNewline: true, endedAtMs: undefined };
    this.#logs.set(sandboxId, { sandboxId, ring, decoders, changedAtMs, ...state });
    this.#expire();
  }

  #expire(): void {
    const now = this.#clock.now();
    for (const log of this.#logs.values()) {
      const isOld = log.endedAtMs !== undefined && now - log.endedAtMs > RETENTION_MS;
      if (isOld) this.#forget(log.sandboxId);
    }
    if (this.#logs.size <= MAX_LOGS) return;
    const stalest = [...this.#logs.values()].toSorted((a, b) => a.changedAtMs - b.changedAtMs)[0];
    if (stalest !== undefined) this.#forget(stalest.sandboxId);
  }

  #forget(sandboxId: string): void {
    this.#logs.delete(sandboxId);
    this.#notifiedAtMs.delete(logUri(sandboxId));
  }

  #changed(log: SandboxLog): void {
    log.changedAtMs = this.#clock.now();
    const uri = logUri(log.sandboxId);
    this.#notify(uri, UPDATE_INTERVAL_MS, (observer) => observer.updated(uri));
  }

  #listChanged(): void {
    this.#notify("", LIST_INTERVAL_MS, (observer) => observer.listChanged());
  }

  /** Calls the observers now, or once at the end of the interval that is running. */
  #notify(key: string, intervalMs: number, call: (observer: LogObserver) => void): void {
    if (this.#pending.has(key) || this.#observers.size === 0) return;
    const last = this.#notifiedAtMs.get(key) ?? Number.NEGATIVE_INFINITY;
    const delayMs = last + intervalMs - this.#clock.now();
    const work = this.#later(delayMs, () => {
      this.#notifiedAtMs.set(key, this.#clock.now());
      for (const observer of this.#observers) call(observer);
    });
    this.#pending.set(key, work);
    void work.finally(() => this.#pending.delete(key));
  }

  async #later(delayMs: number, task: () => void): Promise<void> {
    try {
      await this.#clock.sleep(Math.max(0, delayMs), this.#stop.signal);
    } catch {
      // The server ends, so nobody is left to be told.
      return;
    }
    task();
  }
}

function write(log: SandboxLog, text: string): void {
  log.ring.append(Buffer.from(text, "utf8"));
  log.endsWithNewline = text.endsWith("\n");
}

/** A line of our own, which never begins in the middle of another one. */
function writeHeading(log: SandboxLog, text: string): void {
  write(log, `${log.endsWithNewline ? "" : "\n"}--- ${text}\n`);
}
