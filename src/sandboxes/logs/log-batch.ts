/** Lines of logs on their way to the store, written together; a mark tells of those that were lost. */

import type { Clock } from "../../common/clock.ts";
import type { Logger } from "../../common/log.ts";
import type { LogLine, LogOwner } from "../../store/log-records.ts";
import type { Store } from "../../store/store.ts";

/** Lines wait this long for others, so that a burst is one transaction. */
const FLUSH_MS = 100;
const MAX_WAITING_LINES = 1000;
const MAX_WAITING_BYTES = 512 * 1024;

/** What the host says about a sandbox in every line; a line cannot say otherwise. */
export interface LogSubject extends LogOwner {
  readonly templateId: string;
}

interface Waiting {
  readonly subject: LogSubject;
  readonly lines: LogLine[];
  cursor: string | undefined;
}

/** Sandboxes of which lines could not be written; more are forgotten together. */
const MAX_SANDBOXES_WITH_LOSS = 4_096;

/** What a reader finds in place of lines that had to go. */
const LOST = { level: "warn", message: "log lines lost", logger: "sandboxes" } as const;
const GAP = { level: "warn", message: "older log lines dropped", logger: "sandboxes" } as const;

export interface LogBatch {
  /** The cursor, if there is one, is kept with the line. */
  add(subject: LogSubject, line: LogLine, cursor?: string): void;
  flush(): void;
  /** Of the last line that waits; undefined when none does. */
  cursor(sandboxId: string): string | undefined;
}

export function createLogBatch(options: {
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
}): LogBatch {
  const { store, clock, log } = options;
  const waiting = new Map<string, Waiting>();
  let waitingLines = 0;
  let waitingBytes = 0;
  let flushTimer: NodeJS.Timeout | undefined;
  const lostLines = new Map<string, number>();

  function flush(): void {
    clearTimeout(flushTimer);
    flushTimer = undefined;
    const batch = [...waiting.values()];
    waiting.clear();
    waitingLines = 0;
    waitingBytes = 0;
    for (const entry of batch) tryAppend(entry);
  }

  /** A full disk costs log lines, never the sandbox; the next ones tell how many. */
  function tryAppend({ subject, lines, cursor }: Waiting): void {
    const { sandboxId } = subject;
    const lost = lostLines.get(sandboxId);
    const facts = { subject, atMs: lines[0]?.atMs ?? clock.now(), service: "sandbox-mcp" };
    const gap = lost === undefined ? [] : [toLine({ ...LOST, lost }, facts)];
    const toMark = (atMs: number) => toLine(GAP, { ...facts, atMs }).line;
    try {
      store.logs.append(subject, [...gap, ...lines], { toMark, cursor });
      lostLines.delete(sandboxId);
    } catch (error) {
      if (lostLines.size >= MAX_SANDBOXES_WITH_LOSS) lostLines.clear();
      lostLines.set(sandboxId, (lost ?? 0) + lines.length);
      log.error({ op: "logs.append", sandboxId, err: error }, "log lines were lost");
    }
  }

  function add(subject: LogSubject, line: LogLine, cursor?: string): void {
    const known = waiting.get(subject.sandboxId);
    if (known === undefined) waiting.set(subject.sandboxId, { subject, lines: [line], cursor });
    else {
      known.lines.push(line);
      known.cursor = cursor ?? known.cursor;
    }
    waitingLines += 1;
    waitingBytes += line.line.length;
    if (waitingLines >= MAX_WAITING_LINES || waitingBytes >= MAX_WAITING_BYTES) flush();
    else flushTimer ??= setTimeout(flush, FLUSH_MS);
  }

  return { add, flush, cursor: (sandboxId) => waiting.get(sandboxId)?.cursor };
}

/** A line as it is stored; what the host says about it, the line cannot say otherwise. */
export function toLine(
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
