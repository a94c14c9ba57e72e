/** The tables of log lines: bounded per sandbox, kept for a while after the sandbox is gone. */

import type { DatabaseSync } from "node:sqlite";
import { RECORD_LEVELS } from "../common/log-level.ts";
import type { LogLine, LogExtras, LogOwner, LogPlace, LogTable } from "./log-records.ts";
import { inTransaction, prepareOn, type Row } from "./statement.ts";

/** A sandbox can cause log lines at will, so each has a share of the disk and no more. */
const MAX_SANDBOX_LOG_BYTES = 10 * 1024 * 1024;
const MAX_SANDBOX_LOG_LINES = 50_000;

/** Lines dropped at a time when a share is used up, so that dropping stays rare. */
const DROPPED_LINES = 1000;

interface Book {
  lines: number;
  bytes: number;
}

/** Of the lines of a sandbox, one that was written later has a higher id. */
interface Gone {
  readonly lineId: number;
  readonly atMs: number;
}

interface NewLine extends LogLine {
  readonly sandboxId: string;
  /** The next one, unless it is given. */
  readonly lineId?: number;
}

/** A log of 10 MB and 50,000 lines takes 250 pages of less than a millisecond; with long lines, fewer and longer ones. */
const PAGE_LINES = 200;

/** One page: of lines that do not count the place alone. */
function selectLines(order: "ASC" | "DESC"): string {
  // The place is the first bound, so that the index leads to it.
  const range =
    order === "ASC"
      ? "(at_ms, line_id) > (?, ?) AND +at_ms <= ?"
      : "(at_ms, line_id) < (?, ?) AND +at_ms >= ?";
  return `SELECT at_ms, line_id, CASE WHEN (? = 0 OR
      CASE line ->> 'level' WHEN 'debug' THEN 0 WHEN 'warn' THEN 2 WHEN 'error' THEN 3 ELSE 1 END >= ?)
    AND (? = '' OR instr(line ->> 'message', ?) > 0) THEN line END AS found
    FROM lines WHERE sandbox_id = ? AND ${range}
    ORDER BY at_ms ${order}, line_id ${order} LIMIT ?`;
}

export function openLogs(database: DatabaseSync): LogTable {
  const prepare = prepareOn(database);
  const insert = prepare(
    "INSERT INTO lines (line_id, sandbox_id, at_ms, bytes, line) VALUES (?, ?, ?, ?, ?)",
  );
  const drop = prepare(`
    DELETE FROM lines WHERE line_id IN
      (SELECT line_id FROM lines WHERE sandbox_id = ? ORDER BY line_id LIMIT ?)
    RETURNING line_id, bytes, at_ms`);
  const selectBook = prepare("SELECT lines, bytes, team, cursor FROM books WHERE sandbox_id = ?");
  const upsertBook = prepare(`
    INSERT INTO books (sandbox_id, lines, bytes, written_at_ms, team, cursor)
    VALUES (?, ?, ?, ?, ?, ?)
    ON CONFLICT (sandbox_id) DO UPDATE SET lines = excluded.lines, bytes = excluded.bytes,
      written_at_ms = max(written_at_ms, excluded.written_at_ms),
      cursor = CASE excluded.cursor WHEN '' THEN cursor ELSE excluded.cursor END`);

  function readBook(sandboxId: string): Book {
    const row = selectBook.get(sandboxId);
    return { lines: Number(row?.["lines"] ?? 0), bytes: Number(row?.["bytes"] ?? 0) };
  }

  function add(book: Book, { sandboxId, lineId, atMs, line }: NewLine): void {
    const bytes = Buffer.byteLength(line);
    insert.run(lineId ?? null, sandboxId, atMs, bytes, line);
    book.lines += 1;
    book.bytes += bytes;
  }

  /**
   * Drops what was written first beyond the bounds, whatever its time is: the clock may have been set
   * back. Returns the place and the time of the newest line that had to go.
   */
  function makeSpace(sandboxId: string, book: Book): Gone | undefined {
    let gone: Gone | undefined;
    while (book.lines > MAX_SANDBOX_LOG_LINES || book.bytes > MAX_SANDBOX_LOG_BYTES) {
      const dropped = drop.all(sandboxId, DROPPED_LINES);
      if (dropped.length === 0) break;
      book.lines -= dropped.length;
      for (const row of dropped) {
        book.bytes -= Number(row["bytes"]);
        gone = {
          lineId: Math.max(gone?.lineId ?? 0, Number(row["line_id"])),
          atMs: Math.max(gone?.atMs ?? 0, Number(row["at_ms"])),
        };
      }
    }
    return gone;
  }

  function write(owner: LogOwner, lines: readonly LogLine[], more: LogExtras): void {
    const { sandboxId, team } = owner;
    const { toMark, cursor = "" } = more;
    const book = readBook(sandboxId);
    for (const line of lines) add(book, { sandboxId, ...line });
    const gone = makeSpace(sandboxId, book);
    // In the place of those that went; it goes first when the next ones have to.
    if (gone !== undefined && toMark) add(book, { sandboxId, ...gone, line: toMark(gone.atMs) });
    const writtenAtMs = Math.max(0, ...lines.map(({ atMs }) => atMs));
    upsertBook.run(sandboxId, book.lines, book.bytes, writtenAtMs, team, cursor);
  }

  return {
    append(owner, lines, more = {}) {
      if (lines.length > 0) inTransaction(database, () => write(owner, lines, more));
    },
    read: openRead(database),
    cursor: (sandboxId) => String(selectBook.get(sandboxId)?.["cursor"] ?? ""),
    has: ({ sandboxId, team }) => selectBook.get(sandboxId)?.["team"] === team,
    ...openForget(database),
  };
}

function openRead(database: DatabaseSync): LogTable["read"] {
  const prepare = prepareOn(database);
  const forward = prepare(selectLines("ASC"));
  const backward = prepare(selectLines("DESC"));
  return ({ sandboxId, startMs, endMs, limit, direction, level, search }, behind) => {
    const rank = RECORD_LEVELS.indexOf(level);
    const isForward = direction === "forward";
    const select = isForward ? forward : backward;
    const before = isForward
      ? { atMs: startMs, lineId: -1 }
      : { atMs: endMs, lineId: Number.MAX_SAFE_INTEGER };
    const { atMs, lineId } = behind ?? before;
    // A read of everything needs no more lines than it returns.
    const most = level === "debug" && search === "" ? Math.min(limit, PAGE_LINES) : PAGE_LINES;
    const farMs = isForward ? endMs : startMs;
    const wanted = [rank, rank, search, search, sandboxId, atMs, lineId, farMs, most];
    const rows = select.all(...wanted);
    const found = rows.filter((row) => row["found"] !== null).slice(0, limit);
    const last = found.length === limit ? found.at(-1) : rows.at(-1);
    const isEnd = rows.length < most;
    return {
      lines: found.map((row) => ({ atMs: Number(row["at_ms"]), line: String(row["found"]) })),
      place: isEnd || last === undefined ? undefined : placeOf(last),
    };
  };
}

function placeOf(row: Row): LogPlace {
  return { atMs: Number(row["at_ms"]), lineId: Number(row["line_id"]) };
}

/** Without an index of their times, old books are found by a look at those before them. */
function openForget(
  database: DatabaseSync,
): Pick<LogTable, "rebase" | "forgetBefore" | "listBeyond" | "empty"> {
  const prepare = prepareOn(database);
  const rebase = prepare("UPDATE books SET written_at_ms = ? WHERE written_at_ms > ?");
  const selectOld = prepare(`SELECT sandbox_id FROM books WHERE written_at_ms < ?1 AND NOT EXISTS
    (SELECT 1 FROM lines WHERE lines.sandbox_id = books.sandbox_id AND at_ms BETWEEN ?1 AND ?2) LIMIT ?3`);
  // The order of all books takes seconds where they are hundreds of thousands.
  const selectLarge = prepare("SELECT team FROM books GROUP BY team HAVING sum(bytes) > ? LIMIT 1");
  const selectBeyond = prepare(`
    SELECT sandbox_id FROM
      (SELECT sandbox_id, bytes, sum(bytes) OVER
        (PARTITION BY team ORDER BY written_at_ms DESC, sandbox_id) AS total FROM books)
    WHERE bytes > 0 AND total > ?`);
  const eraseLines = prepare(`
    DELETE FROM lines WHERE line_id IN
      (SELECT line_id FROM lines WHERE sandbox_id = ? LIMIT ?)
    RETURNING bytes`);
  const takeOff = prepare(
    "UPDATE books SET lines = lines - ?, bytes = bytes - ? WHERE sandbox_id = ?",
  );
  const emptyBook = prepare("UPDATE books SET written_at_ms = ? WHERE sandbox_id = ?");
  const eraseBook = prepare("DELETE FROM books WHERE sandbox_id = ?");

  /** Such a sandbox may write again, and keeps its book. Returns how many lines went. */
  function erase(sandboxId: string, mostLines: number): number {
    const erased = eraseLines.all(sandboxId, mostLines);
    const bytes = erased.reduce((sum, row) => sum + Number(row["bytes"]), 0);
    takeOff.run(erased.length, bytes, sandboxId);
    return erased.length;
  }

  return {
    rebase(latestMs, nowMs) {
      rebase.run(nowMs, latestMs);
    },
    listBeyond(mostBytes) {
      if (selectLarge.get(mostBytes) === undefined) return [];
      return selectBeyond.all(mostBytes).map((row) => String(row["sandbox_id"]));
    },
    empty: (sandboxId, mostLines) =>
      inTransaction(database, () => erase(sandboxId, mostLines) === mostLines),
    forgetBefore: (atMs, mostLines, { latestMs = atMs, isThere = () => false } = {}) =>
      inTransaction(database, () => {
        let left = mostLines;
        const old = selectOld
          .all(atMs, latestMs, mostLines)
          .map((row) => String(row["sandbox_id"]));
        for (const sandboxId of old) {
          left -= erase(sandboxId, left);
          if (left === 0) return true;
          if (isThere(sandboxId)) emptyBook.run(atMs, sandboxId);
          else eraseBook.run(sandboxId);
        }
        return old.length === mostLines;
      }),
  };
}
