/** The logs of the sandboxes that this server made or used. */

import type { OutputStream } from "../client/process.ts";
import { ChangeNotifier, type LogObserver } from "./change-notifier.ts";
import { formatLog, type LogText } from "./log-text.ts";
import { findStoredLog, SandboxLog, type LogOptions } from "./sandbox-log.ts";

/** Logs that are kept at once; beyond it the least recently changed one is dropped. */
const MAX_LOGS = 128;
/** How long the log of an ended sandbox stays readable. */
const RETENTION_MS = 15 * 60_000;
const EMPTY_TEXT: LogText = {
  end: 0,
  read: async () => ({ start: 0, bytes: Buffer.alloc(0) }),
};

export interface LogSummary {
  readonly sandboxId: string;
  readonly uri: string;
  readonly sizeBytes: number;
  readonly changedAtMs: number;
}

/** The address of a sandbox's log. */
export function logUri(sandboxId: string): string {
  return `sandbox:///${sandboxId}/log`;
}

/** The address of the output of one process. */
export function processLogUri(sandboxId: string, processId: string): string {
  return `sandbox:///${sandboxId}/process/${processId}/log`;
}

export class SandboxLogs implements AsyncDisposable {
  readonly #options: LogOptions;
  readonly #logs = new Map<string, SandboxLog>();
  readonly #notifier: ChangeNotifier;
  readonly #closing = new Set<Promise<void>>();

  constructor(options: LogOptions) {
    this.#options = options;
    this.#notifier = new ChangeNotifier(options.clock);
  }

  /** Makes the log of a sandbox that is used now. */
  open(sandboxId: string): void {
    const known = this.#logs.get(sandboxId);
    if (known !== undefined && known.endedAtMs === undefined) return;
    if (known === undefined) {
      this.#logs.set(sandboxId, new SandboxLog(sandboxId, this.#options));
      this.#expire();
    } else {
      known.endedAtMs = undefined;
    }
    this.#notifier.listChanged();
  }

  /** The sandbox is gone; its log stays readable for the retention time. */
  close(sandboxId: string): void {
    const log = this.#logs.get(sandboxId);
    if (log === undefined || log.endedAtMs !== undefined) return;
    log.endedAtMs = this.#options.clock.now();
    // The spool stays open: the ends of its processes can still arrive. `write` never rejects.
    void log.write();
    this.#notifier.listChanged();
  }

  /** Appends output of a process. */
  output(sandboxId: string, processId: string, chunk: { stream: OutputStream; bytes: Uint8Array }) {
    if (this.#logs.get(sandboxId)?.output(processId, chunk) === true) {
      this.#updated(sandboxId, processId);
    }
  }

  /** Appends a line about a process, such as its start or end. */
  note(sandboxId: string, processId: string, event: string): void {
    const log = this.#logs.get(sandboxId);
    if (log === undefined) return;
    log.note(processId, event);
    this.#updated(sandboxId, processId);
  }

  /** Drops what was kept for the output of a process that ended. */
  finish(sandboxId: string, processId: string): void {
    this.#logs.get(sandboxId)?.finish(processId);
    this.#notifier.forget(processLogUri(sandboxId, processId));
  }

  /** The newest part of a log, or the part from a position on; undefined when there is none. */
  async read(sandboxId: string, from?: number): Promise<string | undefined> {
    this.#expire();
    const text = await this.#text(sandboxId);
    return text && formatLog(text, { from, address: logUri(sandboxId) });
  }

  /** The logs of sandboxes that live, newest change first. */
  list(): readonly LogSummary[] {
    this.#expire();
    return [...this.#logs.values()]
      .filter((log) => log.endedAtMs === undefined)
      .toSorted((left, right) => right.changedAtMs - left.changedAtMs)
      .map(({ sandboxId, sizeBytes, changedAtMs }) => ({
        sandboxId,
        uri: logUri(sandboxId),
        sizeBytes,
        changedAtMs,
      }));
  }

  /** Calls the observer at changes until the returned function is called. */
  observe(observer: LogObserver): () => void {
    return this.#notifier.observe(observer);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const notified = this.#notifier[Symbol.asyncDispose]();
    for (const log of this.#logs.values()) this.#end(log, log.endedAtMs);
    await Promise.all([notified, ...this.#closing]);
  }

  async #text(sandboxId: string): Promise<LogText | undefined> {
    const log = this.#logs.get(sandboxId);
    // Another server can have a log of a sandbox in which this one started nothing.
    return (
      (await log?.text()) ??
      (await findStoredLog(sandboxId, this.#options, RETENTION_MS)) ??
      (log && EMPTY_TEXT)
    );
  }

  #updated(sandboxId: string, processId: string): void {
    this.#notifier.updated(logUri(sandboxId));
    this.#notifier.updated(processLogUri(sandboxId, processId));
  }

  #end(log: SandboxLog, endedAtMs: number | undefined): void {
    const work = log.close(endedAtMs);
    this.#closing.add(work);
    void work.finally(() => this.#closing.delete(work));
  }

  #expire(): void {
    const now = this.#options.clock.now();
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
    this.#notifier.forget(logUri(log.sandboxId));
    this.#end(log, log.endedAtMs ?? this.#options.clock.now());
  }
}
