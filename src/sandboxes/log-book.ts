/** The log of every sandbox: the service's own lines and the daemon's, in one order. */

import type { Clock } from "../common/clock.ts";
import { SandboxError } from "../common/errors.ts";
import type { Logger } from "../common/log.ts";
import type { LogFilter, LogLine, LogOwner, Store } from "../store/store.ts";
import { daemonLogLineSchema } from "../wire/files.ts";
import { sandboxMissing } from "../wire/messages.ts";

/** Lines wait this long for others, so that a burst is one transaction. */
const FLUSH_MS = 100;
const MAX_WAITING_LINES = 1000;

const DAY_MS = 86_400_000;
const RETENTION_MS = 7 * DAY_MS;
const FORGET_INTERVAL_MS = 3_600_000;

/** Memory that one read may take; readers page by time. */
const MAX_READ_LINES = 10_000;

/** What the host says about a sandbox in every line; a line cannot say otherwise. */
export interface LogSubject extends LogOwner {
  readonly templateId: string;
}

/** A record of a sandbox's log. */
export type LogRecord = LogLine;

export interface LogBook extends Disposable {
  /** A line of the service itself. */
  note(subject: LogSubject, message: string, fields?: Readonly<Record<string, unknown>>): void;
  /** A line as the daemon sent it: untrusted. Lines that are no log lines are dropped. */
  take(subject: LogSubject, text: string): void;
  /** @throws SandboxError not_found when nothing is known of the sandbox. */
  read(query: LogQuery): LogLine[];
  /** @throws SandboxError not_found when nothing is known of such a sandbox of the team. */
  requireKnown(owner: LogOwner): void;
}

/** Bounds are inclusive; without them, the last seven days. */
export interface LogQuery {
  readonly sandboxId: string;
  readonly team: string;
  readonly startMs?: number | undefined;
  readonly endMs?: number | undefined;
  readonly limit: number;
  /** Forward: oldest first, as by default; backward: newest first. */
  readonly direction?: "forward" | "backward" | undefined;
  /** The lowest level that counts. */
  readonly level?: LogFilter["level"] | undefined;
  /** A part of the message. */
  readonly search?: string | undefined;
}

interface Waiting {
  readonly subject: LogSubject;
  readonly lines: LogLine[];
}

/** What a reader finds in place of lines that had to go. */
const GAP = { level: "warn", message: "older log lines dropped", logger: "sandboxes" } as const;

/** Opens the book; what is too old is forgotten now and every hour. */
export function startLogBook(options: {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
}): LogBook {
  const { store, clock, log } = options;
  const waiting = new Map<string, Waiting>();
  let waitingLines = 0;
  let flushTimer: NodeJS.Timeout | undefined;

  function flush(): void {
    clearTimeout(flushTimer);
    flushTimer = undefined;
    const batch = [...waiting];
    waiting.clear();
    waitingLines = 0;
    for (const [, { subject, lines }] of batch) {
      const toMark = (atMs: number) => toLine(GAP, { subject, atMs, service: "sandbox-mcp" }).line;
      store.logs.append(subject, lines, toMark);
    }
  }

  /** A full disk costs log lines, never the sandbox. */
  function tryFlush(): void {
    try {
      flush();
    } catch (error) {
      log.error({ op: "logs.append", err: error }, "log lines were lost");
    }
  }

  function add(subject: LogSubject, line: LogLine): void {
    const known = waiting.get(subject.sandboxId);
    if (known === undefined) waiting.set(subject.sandboxId, { subject, lines: [line] });
    else known.lines.push(line);
    waitingLines += 1;
    if (waitingLines >= MAX_WAITING_LINES) tryFlush();
    else flushTimer ??= setTimeout(tryFlush, FLUSH_MS);
  }

  function requireKnown(owner: LogOwner): void {
    tryFlush();
    if (store.logs.has(owner)) return;
    throw new SandboxError("not_found", sandboxMissing(owner.sandboxId));
  }

  function forget(): void {
    store.logs.forgetBefore(clock.now() - RETENTION_MS);
  }
  forget();
  const forgetTimer = setInterval(forget, FORGET_INTERVAL_MS).unref();

  return {
    note(subject, message, fields = {}) {
      const atMs = clock.now();
      const raw = { level: "info", message, logger: "sandboxes", ...fields };
      add(subject, toLine(raw, { subject, atMs, service: "sandbox-mcp" }));
    },
    take(subject, text) {
      const parsed = parseLine(text);
      if (parsed === undefined) return;
      const atMs = plausibleTime(Date.parse(parsed.timestamp), clock.now());
      add(subject, toLine(parsed, { subject, atMs, service: "envd" }));
    },
    read(query) {
      requireKnown(query);
      return store.logs.read(toFilter(query, clock.now()));
    },
    requireKnown,
    [Symbol.dispose]() {
      clearInterval(forgetTimer);
      tryFlush();
    },
  };
}

function toFilter(query: LogQuery, nowMs: number): LogFilter {
  const endMs = query.endMs ?? Number.MAX_SAFE_INTEGER;
  return {
    sandboxId: query.sandboxId,
    startMs: query.startMs ?? Math.min(endMs, nowMs) - RETENTION_MS,
    endMs,
    limit: Math.min(query.limit, MAX_READ_LINES),
    direction: query.direction ?? "forward",
    level: query.level ?? "debug",
    search: query.search ?? "",
  };
}

function toLine(
  raw: Readonly<Record<string, unknown>>,
  facts: { readonly subject: LogSubject; readonly atMs: number; readonly service: string },
): LogLine {
  const { subject, atMs, service } = facts;
  const line = JSON.stringify({
    ...raw,
    timestamp: new Date(atMs).toISOString(),
    service,
    sandboxID: subject.sandboxId,
    instanceID: subject.sandboxId,
    templateID: subject.templateId,
    envID: subject.templateId,
    category: "default",
  });
  return { atMs, line };
}

function parseLine(text: string): ReturnType<typeof daemonLogLineSchema.parse> | undefined {
  let value: unknown;
  try {
    value = JSON.parse(text);
  } catch (error) {
    if (error instanceof SyntaxError) return undefined;
    throw error;
  }
  return daemonLogLineSchema.safeParse(value).data;
}

/** How far a daemon's clock may be from ours, pauses and queues included. */
const MAX_LINE_AGE_MS = 60_000;

function plausibleTime(claimedMs: number, nowMs: number): number {
  const isPlausible = claimedMs > nowMs - MAX_LINE_AGE_MS && claimedMs <= nowMs;
  return isPlausible ? claimedMs : nowMs;
}
