/** What this server saw of each sandbox's processes, as one text per sandbox, also on the disk. */

import type { OutputStream } from "../client/process.ts";
import type { Clock } from "../common/clock.ts";
import type { Logger } from "../common/log.ts";
import { quoteUntrusted } from "../common/untrusted-text.ts";
import type { Spools } from "../spool/spools.ts";
import type { SpoolLimits, SpoolWriter } from "../spool/writer.ts";
import { newestText, textOfRange, textOfSpool, type LogText } from "./log-text.ts";
import { ByteRing } from "./output-buffer.ts";
import { toNote, withoutNotes } from "./quote.ts";
import { formatBytes, incompleteTail } from "./text.ts";

const MIB = 1024 * 1024;
/** What comes within one interval of writing and is more than this is dropped, with a mark. */
const LOG_BYTES = 256 * 1024;
/** The first and the newest part on the disk; whole outputs are kept per process. */
const LOG_LIMITS: SpoolLimits = { fileBytes: MIB, headBytes: MIB, tailBytes: 7 * MIB };
/** A flood costs the disk one buffer per interval; a killed server loses as much. */
const PERSIST_MS = 200;
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

const LOG_NAME = "log";
const EMPTY_TEXT: LogText = {
  end: 0,
  read: async () => ({ start: 0, bytes: Buffer.alloc(0) }),
};

interface SandboxLog {
  readonly sandboxId: string;
  readonly ring: ByteRing;
  /** Bytes at the end of a voice's output that belong to a character that is not complete. */
  readonly held: Map<string, Buffer>;
  /** Who wrote last, so that a change of voice gets a line of its own. */
  voice: string;
  changedAtMs: number;
  /** Undefined while the sandbox lives. */
  endedAtMs: number | undefined;
  /** Where on the disk it goes on; undefined until something must be written. */
  spool: Promise<SpoolWriter | undefined> | undefined;
  /** The position in the ring up to which all is written, or dropped with a mark. */
  persisted: number;
  persisting: Promise<void>;
  timer: NodeJS.Timeout | undefined;
}

export interface SandboxLogsOptions {
  readonly clock: Clock;
  readonly spools: Spools;
  readonly log: Logger;
}

/** The address of a sandbox's log. */
export function logUri(sandboxId: string): string {
  return `sandbox:///${sandboxId}/log`;
}

/** The address of the output of one process. */
export function processLogUri(sandboxId: string, processId: string): string {
  return `sandbox:///${sandboxId}/process/${processId}/log`;
}

/** The logs of all sandboxes that this server made or used. */
export class SandboxLogs implements AsyncDisposable {
  readonly #options: SandboxLogsOptions;
  readonly #clock: Clock;
  readonly #logs = new Map<string, SandboxLog>();
  readonly #observers = new Set<LogObserver>();
  readonly #stop = new AbortController();
  readonly #pending = new Map<string, Promise<void>>();
  readonly #notifiedAtMs = new Map<string, number>();
  readonly #closing = new Set<Promise<void>>();

  constructor(options: SandboxLogsOptions) {
    this.#options = options;
    this.#clock = options.clock;
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
    // Its processes may still say how they ended.
    void this.#persist(log);
    this.#listChanged();
  }

  /** Output of a process, as it comes. */
  output(sandboxId: string, processId: string, chunk: { stream: OutputStream; bytes: Uint8Array }) {
    const log = this.#logs.get(sandboxId);
    if (log === undefined) return;
    const voice = `${processId} ${chunk.stream}`;
    const held = log.held.get(voice);
    const bytes = held === undefined ? chunk.bytes : Buffer.concat([held, chunk.bytes]);
    // Another voice may come between the bytes of a character, which must stay together.
    const open = incompleteTail(bytes);
    if (open > 0) log.held.set(voice, Buffer.from(bytes.subarray(bytes.length - open)));
    else if (held !== undefined) log.held.delete(voice);
    if (bytes.length === open) return;
    if (log.voice !== voice) log.ring.append(toNote(voice));
    log.voice = voice;
    log.ring.append(withoutNotes(bytes.subarray(0, bytes.length - open)));
    this.#changed(log, processId);
  }

  /** A line about a process: that it began, or how it ended. */
  note(sandboxId: string, processId: string, event: string): void {
    const log = this.#logs.get(sandboxId);
    if (log === undefined) return;
    log.voice = "";
    log.ring.append(toNote(`${processId} ${quoteUntrusted(event)}`));
    this.#changed(log, processId);
  }

  /** Forgets what was kept for the output of a process that ended. */
  finish(sandboxId: string, processId: string): void {
    const held = this.#logs.get(sandboxId)?.held;
    held?.delete(`${processId} stdout`);
    held?.delete(`${processId} stderr`);
    this.#notifiedAtMs.delete(processLogUri(sandboxId, processId));
  }

  /** The newest part of a log, or what comes from a position on; undefined when there is none. */
  async read(sandboxId: string, from?: number): Promise<string | undefined> {
    this.#expire();
    const text = await this.#text(sandboxId);
    if (text === undefined) return undefined;
    const address = logUri(sandboxId);
    return from === undefined ? newestText(text, address) : textOfRange(text, { from, address });
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
    for (const log of this.#logs.values()) this.#end(log, log.endedAtMs);
    await Promise.all([...this.#pending.values(), ...this.#closing]);
  }

  /** A log wherever it is kept: what this server wrote, or what another one left. */
  async #text(sandboxId: string): Promise<LogText | undefined> {
    const log = this.#logs.get(sandboxId);
    if (log === undefined) return this.#stored(sandboxId);
    // Where nothing was said to this server, another one may have heard something.
    if (log.ring.end === 0) return (await this.#stored(sandboxId)) ?? EMPTY_TEXT;
    await this.#persist(log);
    const spool = await log.spool;
    if (spool !== undefined && spool.failure === undefined) {
      await spool.flush();
      return textOfSpool(spool.place.folder);
    }
    const { ring } = log;
    return {
      end: ring.end,
      read: async (from, maxBytes) => {
        const start = Math.min(Math.max(from, ring.start), ring.end);
        return { start, bytes: ring.slice(start, Math.min(ring.end, start + maxBytes)) };
      },
    };
  }

  async #stored(sandboxId: string): Promise<LogText | undefined> {
    const found = await this.#options.spools.find({ sandboxId, name: LOG_NAME });
    const endedAtMs = Number(found?.ending?.["endedAtMs"] ?? this.#clock.now());
    const isOld = this.#clock.now() - endedAtMs > RETENTION_MS;
    return found === undefined || isOld ? undefined : textOfSpool(found.place.folder);
  }

  #make(sandboxId: string): void {
    this.#logs.set(sandboxId, {
      sandboxId,
      ring: new ByteRing(LOG_BYTES),
      held: new Map(),
      changedAtMs: this.#clock.now(),
      voice: "",
      endedAtMs: undefined,
      spool: undefined,
      persisted: 0,
      persisting: Promise.resolve(),
      timer: undefined,
    });
    this.#expire();
  }

  /** Writes what is left and lets the disk go; without a time another server may go on. */
  #end(log: SandboxLog, endedAtMs: number | undefined): void {
    clearTimeout(log.timer);
    log.timer = undefined;
    const work = this.#close(log, endedAtMs);
    this.#closing.add(work);
    void work.finally(() => this.#closing.delete(work));
  }

  async #close(log: SandboxLog, endedAtMs: number | undefined): Promise<void> {
    await this.#persist(log);
    const spool = await log.spool;
    await spool?.close(endedAtMs === undefined ? undefined : { endedAtMs });
  }

  #persist(log: SandboxLog): Promise<void> {
    const attempt = async () => {
      try {
        await this.#write(log);
      } catch (error) {
        this.#options.log.debug({ op: "log.write", sandboxId: log.sandboxId, err: error });
      }
    };
    log.persisting = log.persisting.then(attempt);
    return log.persisting;
  }

  async #write(log: SandboxLog): Promise<void> {
    if (log.persisted === log.ring.end) return;
    log.spool ??= this.#claim(log.sandboxId);
    const spool = await log.spool;
    const { ring } = log;
    const from = Math.max(log.persisted, ring.start);
    const dropped = from - log.persisted;
    const bytes = ring.slice(from, ring.end);
    log.persisted = ring.end;
    if (dropped > 0) await spool?.append("note", toNote(droppedText(dropped)));
    await spool?.append("stdout", bytes);
  }

  /** The log that a dead server left of this sandbox, or a new one. */
  async #claim(sandboxId: string): Promise<SpoolWriter | undefined> {
    const { spools } = this.#options;
    const key = { sandboxId, name: LOG_NAME };
    const found = await spools.find(key);
    if (found !== undefined && found.ending === undefined && !found.isLive) {
      const taken = await spools.takeOver(found.place, LOG_LIMITS);
      if (taken !== undefined) return taken.writer;
    }
    return spools.create(key, LOG_LIMITS);
  }

  #expire(): void {
    const now = this.#clock.now();
    for (const log of this.#logs.values()) {
      const isOld = log.endedAtMs !== undefined && now - log.endedAtMs > RETENTION_MS;
      if (isOld) this.#forget(log);
    }
    if (this.#logs.size <= MAX_LOGS) return;
    const stalest = [...this.#logs.values()].toSorted((a, b) => a.changedAtMs - b.changedAtMs)[0];
    if (stalest !== undefined) this.#forget(stalest);
  }

  #forget(log: SandboxLog): void {
    this.#logs.delete(log.sandboxId);
    this.#notifiedAtMs.delete(logUri(log.sandboxId));
    this.#end(log, log.endedAtMs ?? this.#clock.now());
  }

  #changed(log: SandboxLog, processId: string): void {
    log.changedAtMs = this.#clock.now();
    // It catches its own failures.
    log.timer ??= setTimeout(() => {
      log.timer = undefined;
      void this.#persist(log);
    }, PERSIST_MS).unref();
    for (const uri of [logUri(log.sandboxId), processLogUri(log.sandboxId, processId)]) {
      this.#notify(uri, UPDATE_INTERVAL_MS, (observer) => observer.updated(uri));
    }
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

function droppedText(bytes: number): string {
  return `[… ${formatBytes(bytes)} dropped here; get_process_output reads one process whole …]`;
}
