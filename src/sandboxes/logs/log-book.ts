/** The log of every sandbox: the service's own lines and the daemon's, in one order. */

import { setImmediate } from "node:timers/promises";
import type { Clock } from "../../common/clock.ts";
import { SandboxError } from "../../common/errors.ts";
import { parseJson } from "../../common/json.ts";
import type { Logger } from "../../common/log.ts";
import type { LogFilter, LogLine, LogOwner, LogPlace } from "../../store/log-records.ts";
import type { Store } from "../../store/store.ts";
import { daemonLogLineSchema } from "../../wire/files.ts";
import { sandboxMissing } from "../../wire/messages.ts";
import { createLogBatch, toLine, type LogSubject } from "./log-batch.ts";
import { createLogPaces, type LogPace } from "./log-pace.ts";
import { createReadMarks } from "./read-marks.ts";

const DAY_MS = 86_400_000;
const RETENTION_MS = 7 * DAY_MS;
const FORGET_INTERVAL_MS = 3_600_000;
/** A line that is later than that was written before the clock was set back: it would stay as much longer. */
const MAX_AHEAD_MS = 60_000;
/** Lines that are forgotten in one turn of the event loop, which takes milliseconds. */
const FORGOTTEN_LINES = 200;
/** Of a team: a user who makes sandboxes again and again would fill the disk within days. */
const MAX_TEAM_BYTES = 4 * 1024 * 1024 * 1024;

const LOGGER = "sandboxes";
/** What a line says that stands for something that is missing. */
const MARK = { level: "warn", logger: LOGGER } as const;

/** Memory that one read may take; readers page by time. */
export const MAX_READ_LINES = 10_000;
/** Of lines in one read: a reply has each of them twice. */
const MAX_READ_BYTES = 4_194_304;

/** Twice a full log: lines that keep coming must not keep a search from its end. */
const MAX_READ_PAGES = 500;

/** A record of a sandbox's log. */
export type LogRecord = LogLine;

export interface LogBook extends Disposable {
  /** How fast the daemon of one more sandbox is read. */
  openPace(): LogPace;
  /** A line of the service itself. */
  note(subject: LogSubject, message: string, fields?: Readonly<Record<string, unknown>>): void;
  /** A line as the daemon sent it: untrusted. Of one that is no log line a mark is left. */
  take(subject: LogSubject, text: string, place: LinePosition): void;
  /** A mark in the place of something that is missing. */
  mark(subject: LogSubject, message: string): void;
  /** The cursor of the last line that was taken; empty when there is none. */
  cursor(sandboxId: string): string;
  /** Nothing of a sandbox that is unknown, or whose lines are all too old to be kept. */
  read(query: LogQuery): Promise<LogLine[]>;
  /** @throws SandboxError not_found when nothing is known of such a sandbox of the team. */
  requireKnown(owner: LogOwner): void;
}

/** Where a line stands among those of its daemon. */
export interface LinePosition {
  /** Kept with the line, so that the next follower continues behind it. */
  readonly cursor: string | undefined;
  /** How many before it are missing. */
  readonly lost: number;
}

/** Bounds are inclusive; without them, the last seven days. */
export interface LogQuery {
  readonly sandboxId: string;
  readonly startMs?: number | undefined;
  readonly endMs?: number | undefined;
  readonly limit: number;
  /** Forward: oldest first, as by default; backward: newest first. */
  readonly direction?: "forward" | "backward" | undefined;
  /** The lowest level that counts. */
  readonly level?: LogFilter["level"] | undefined;
  /** A part of the message. */
  readonly search?: string | undefined;
  /** Ends the read of a client that is gone. */
  readonly signal?: AbortSignal | undefined;
}

interface LogBookOptions {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly teamBytes?: number;
}

/** Opens the book; what is too old, or too much of a team, is forgotten now and every hour. */
export function startLogBook(options: LogBookOptions): LogBook {
  const { store, clock } = options;
  const batch = createLogBatch(options);
  const marks = createReadMarks();

  /** A line of the service itself. */
  function addOwn(
    subject: LogSubject,
    raw: Readonly<Record<string, unknown>>,
    more: { readonly atMs?: number; readonly cursor?: string | undefined } = {},
  ): void {
    const { atMs = marks.place(subject.sandboxId, clock.now()), cursor } = more;
    batch.add(subject, toLine(raw, { subject, atMs, service: "sandbox-mcp" }), cursor);
  }

  function requireKnown(owner: LogOwner): void {
    batch.flush();
    if (store.logs.has(owner)) return;
    throw new SandboxError("not_found", sandboxMissing(owner.sandboxId));
  }

  const end = new AbortController();
  const nextTurn = createTurns();
  const forget = () => void forgetLines(options, end.signal);
  forget();
  const forgetTimer = setInterval(forget, FORGET_INTERVAL_MS).unref();

  return {
    openPace: createLogPaces(clock),
    note(subject, message, fields = {}) {
      addOwn(subject, { level: "info", message, logger: LOGGER, ...fields });
    },
    take(subject, text, { cursor, lost }) {
      const parsed = parseLine(text);
      const claimedMs = Date.parse(parsed?.timestamp ?? "");
      const atMs = marks.place(subject.sandboxId, plausibleTime(claimedMs, clock.now()));
      if (lost > 0) addOwn(subject, { ...MARK, message: "log lines lost", lost }, { atMs });
      if (parsed === undefined) {
        const message = "a line that is no log line was dropped";
        addOwn(subject, { ...MARK, message }, { atMs, cursor });
        return;
      }
      batch.add(subject, toLine(parsed, { subject, atMs, service: "envd" }), cursor);
    },
    mark(subject, message) {
      addOwn(subject, { ...MARK, message });
    },
    cursor(sandboxId) {
      return batch.cursor(sandboxId) ?? store.logs.cursor(sandboxId);
    },
    read: async (query) =>
      readPages(store, toFilter(query, clock.now()), {
        flush: () => batch.flush(),
        mark: (atMs) => marks.read(query.sandboxId, atMs),
        async turn() {
          await nextTurn();
          if (query.signal?.aborted)
            throw new SandboxError("canceled", "the request was cancelled");
          if (end.signal.aborted) throw new SandboxError("unavailable", "the service is ending");
        },
      }),
    requireKnown,
    [Symbol.dispose]() {
      end.abort();
      clearInterval(forgetTimer);
      batch.flush();
    },
  };
}

interface PageEnds {
  /** Writes what came meanwhile: it is before the place, or among what is read next. */
  readonly flush: () => void;
  /** What comes from now on stands behind what was looked at up to this time. */
  readonly mark: (atMs: number) => void;
  /** Waits until the next page may be read. @throws SandboxError when nothing is to be read any more. */
  readonly turn: () => Promise<void>;
}

/** Each has a turn of the event loop of its own, however many wait for one. */
function createTurns(): () => Promise<void> {
  let last = Promise.resolve();
  return async () => {
    last = last.then(async () => setImmediate());
    await last;
  };
}

/** Leaves the event loop to others between the pages of a search. */
async function readPages(
  { logs }: Pick<Store, "logs">,
  filter: LogFilter,
  { flush, mark, turn }: PageEnds,
): Promise<LogLine[]> {
  const found: LogLine[] = [];
  let bytes = 0;
  let behind: LogPlace | undefined;
  for (let page = 0; page < MAX_READ_PAGES; page += 1) {
    flush();
    const { lines, place } = logs.read({ ...filter, limit: filter.limit - found.length }, behind);
    const looked = place ?? lines.at(-1);
    if (filter.direction === "forward" && looked !== undefined) mark(looked.atMs);
    found.push(...lines);
    bytes += lines.reduce((sum, { line }) => sum + Buffer.byteLength(line), 0);
    behind = place;
    const isFull = found.length >= filter.limit || bytes > MAX_READ_BYTES;
    if (behind === undefined || isFull) break;
    await turn();
  }
  return withinBytes(found);
}

/** After a week in which no service ran, all lines may be too old. It never rejects. */
async function forgetLines(options: LogBookOptions, signal: AbortSignal): Promise<void> {
  const { store, clock, log, teamBytes = MAX_TEAM_BYTES } = options;
  try {
    const nowMs = clock.now();
    const latestMs = nowMs + MAX_AHEAD_MS;
    store.logs.rebase(latestMs, nowMs);
    const beforeMs = nowMs - RETENTION_MS;
    const isThere = (sandboxId: string) => store.sandboxes.get(sandboxId) !== undefined;
    const forget = () => store.logs.forgetBefore(beforeMs, FORGOTTEN_LINES, { latestMs, isThere });
    while (!signal.aborted && forget()) await setImmediate();
    if (signal.aborted) return;
    for (const sandboxId of store.logs.listBeyond(teamBytes)) {
      while (!signal.aborted && store.logs.empty(sandboxId, FORGOTTEN_LINES)) await setImmediate();
    }
  } catch (error) {
    log.error({ op: "logs.forget", err: error }, "old log lines stay");
  }
}

/** The first lines that are not too many bytes; always one. */
export function withinBytes(lines: LogLine[]): LogLine[] {
  let bytes = 0;
  const end = lines.findIndex(({ line }, index) => {
    bytes += Buffer.byteLength(line);
    return index > 0 && bytes > MAX_READ_BYTES;
  });
  return end === -1 ? lines : lines.slice(0, end);
}

/** What is read for a query, with every default. */
export function toFilter(query: LogQuery, nowMs: number): LogFilter {
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

/** Lines of our daemon have a third of it; each field costs as much as a short line in a reply. */
const MAX_LINE_VALUES = 64;

/** A line of a daemon; undefined for one that is no log line. */
export function parseLine(text: string): ReturnType<typeof daemonLogLineSchema.parse> | undefined {
  let value: unknown;
  try {
    value = parseJson(Buffer.from(text), { maxValues: MAX_LINE_VALUES });
  } catch (error) {
    if (error instanceof SyntaxError || error instanceof SandboxError) return undefined;
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
