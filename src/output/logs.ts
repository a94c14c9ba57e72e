/** The logs of the sandboxes that this server made or used. */

import type { OutputStream } from "../client/process.ts";
import { ChangeNotifier, type LogObserver } from "./change-notifier.ts";
import { countOtherLogs, showStoredLog, type LogOptions } from "./log-spool.ts";
import { formatLog, type LogText } from "./log-text.ts";
import { SandboxLog } from "./sandbox-log.ts";

/** Logs in memory at once; the least recently changed one beyond it is on the disk alone. */
const MAX_LOGS = 128;
/** How long the log of an ended sandbox stays readable. */
const RETENTION_MS = 15 * 60_000;
const OTHERS_NOTE =
  "[… other servers use this sandbox, too; what these logged is not in this log: " +
  "get_process_output reads their processes …]";
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
  /** By sandbox: the end of a log that left memory. */
  readonly #closing = new Map<string, Promise<void>>();
  #isDisposed = false;

  constructor(options: LogOptions) {
    this.#options = options;
    this.#notifier = new ChangeNotifier(options.clock);
  }

  /** Makes the log of a sandbox that is used now. */
  open(sandboxId: string): void {
    const known = this.#logs.get(sandboxId);
    if (known !== undefined && known.endedAtMs === undefined) return;
    if (known === undefined) this.#create(sandboxId);
    else {
      known.endedAtMs = undefined;
      this.#notifier.listChanged();
    }
  }

  /** The sandbox is gone; its log stays readable for the retention time. */
  close(sandboxId: string): void {
    const log = this.#logs.get(sandboxId);
    if (log === undefined || log.endedAtMs !== undefined) return;
    log.endedAtMs = this.#options.clock.now();
    log.endedAtElapsedMs = this.#options.clock.elapsed();
    // The spool stays open: the ends of its processes can still arrive. `write` never rejects.
    void log.write();
    this.#notifier.listChanged();
  }

  /** Appends output of a process. */
  output(sandboxId: string, processId: string, chunk: { stream: OutputStream; bytes: Uint8Array }) {
    if (this.#isDisposed) return;
    if (this.#require(sandboxId).output(processId, chunk)) {
      this.#updated(sandboxId, processId);
    }
  }

  /** Appends a line about a process, such as its start or end. */
  note(sandboxId: string, processId: string, event: string): void {
    if (this.#isDisposed) return;
    this.#require(sandboxId).note(processId, event);
    this.#updated(sandboxId, processId);
  }

  /** The newest part of a log, or the part from a position on; undefined when there is none. */
  async read(sandboxId: string, from?: number): Promise<string | undefined> {
    this.#expire();
    const address = logUri(sandboxId);
    const own = await this.#ownText(sandboxId);
    if (own !== undefined) {
      const others = await countOtherLogs(sandboxId, this.#options);
      return formatLog(own, { from, address, note: others === 0 ? undefined : OTHERS_NOTE });
    }
    const show = async (text: LogText) => formatLog(text, { from, address });
    const view = { retentionMs: RETENTION_MS, show };
    const stored = await showStoredLog(sandboxId, this.#options, view);
    return stored ?? (this.#logs.has(sandboxId) ? show(EMPTY_TEXT) : undefined);
  }

  /** The logs of sandboxes that live, newest change first. */
  list(): readonly LogSummary[] {
    this.#expire();
    return [...this.#logs.values()]
      .filter((log) => log.endedAtMs === undefined)
      .toSorted((left, right) => right.changedAtElapsedMs - left.changedAtElapsedMs)
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
    this.#isDisposed = true;
    const notified = this.#notifier[Symbol.asyncDispose]();
    for (const log of this.#logs.values()) this.#end(log, log.endedAtMs);
    await Promise.all([notified, ...this.#closing.values()]);
  }

  async #ownText(sandboxId: string): Promise<LogText | undefined> {
    await this.#closing.get(sandboxId);
    return this.#logs.get(sandboxId)?.text();
  }

  #updated(sandboxId: string, processId: string): void {
    this.#notifier.updated(logUri(sandboxId));
    this.#notifier.updated(processLogUri(sandboxId, processId));
  }

  /** A process can outlast the log of its sandbox in memory. */
  #require(sandboxId: string): SandboxLog {
    return this.#logs.get(sandboxId) ?? this.#create(sandboxId);
  }

  /** Continues what is on the disk once it is written. */
  #create(sandboxId: string): SandboxLog {
    const log = new SandboxLog(sandboxId, this.#options, this.#closing.get(sandboxId));
    this.#logs.set(sandboxId, log);
    this.#expire(sandboxId);
    this.#notifier.listChanged();
    return log;
  }

  #end(log: SandboxLog, endedAtMs: number | undefined): void {
    const { sandboxId } = log;
    const work = this.#closeLog(log, endedAtMs).finally(() => {
      if (this.#closing.get(sandboxId) === work) this.#closing.delete(sandboxId);
    });
    this.#closing.set(sandboxId, work);
  }

  async #closeLog(log: SandboxLog, endedAtMs: number | undefined): Promise<void> {
    try {
      await log.close(endedAtMs);
    } catch (error) {
      this.#options.log.debug({ op: "log.close", sandboxId: log.sandboxId, err: error });
    }
  }

  /** @param used the log that is never the least recently changed one. */
  #expire(used?: string): void {
    const now = this.#options.clock.elapsed();
    for (const log of this.#logs.values()) {
      const isOld = log.endedAtMs !== undefined && now - log.endedAtElapsedMs > RETENTION_MS;
      if (isOld) this.#forget(log);
    }
    if (this.#logs.size <= MAX_LOGS) return;
    const [stalest] = [...this.#logs.values()]
      .filter(({ sandboxId }) => sandboxId !== used)
      .toSorted((left, right) => left.changedAtElapsedMs - right.changedAtElapsedMs);
    if (stalest !== undefined) this.#forget(stalest);
  }

  #forget(log: SandboxLog): void {
    this.#logs.delete(log.sandboxId);
    this.#end(log, log.endedAtMs ?? this.#options.clock.now());
  }
}
