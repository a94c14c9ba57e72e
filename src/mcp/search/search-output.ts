/** The output of the programs that search files, read as it comes and bounded in every record. */

import { createByteBuffer } from "../../common/bytes.ts";
import { fromSystemBytes, toWirePath } from "../../common/file-names.ts";
import { tryParseJson } from "../../common/json.ts";
import { z } from "../../common/schema.ts";

/** A line of a file that matches, or one near it. */
export interface FoundLine {
  readonly path: string;
  /** Undefined for a line whose record was cut: its text is empty then. */
  readonly line: number | undefined;
  readonly text: string;
  readonly isMatch: boolean;
}

export interface FoundEvents {
  found(line: FoundLine): void;
  /** No line of the last file follows. */
  fileEnd(isBinary: boolean): void;
}

/** The summary is the last record of ripgrep, which no other program prints. */
export interface RipgrepEvents extends FoundEvents {
  summary(): void;
}

/** One record with its path; what exceeds this is discarded. A reply says so of a match. */
const MAX_RECORD_BYTES = 1024 * 1024;
/** A line of minified code is longer than all that is read of it. */
const MAX_LINE_BYTES = 400;
/** Of a long line the match is shown with so much before it. */
const LEAD_BYTES = 100;

const NUL = 0x00;
const NEWLINE = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** Splits a stream into records of fields, each of which ends with its own byte. */
function createRecordReader(
  ends: readonly number[],
  onRecord: (fields: readonly Buffer[]) => void,
): (chunk: Uint8Array) => void {
  let fields: Buffer[] = [];
  /** Copies: a kept part must not keep the whole chunk, and a record may come byte by byte. */
  const field = createByteBuffer();
  let size = 0;

  function add(part: Uint8Array): void {
    const kept = part.subarray(0, Math.max(0, MAX_RECORD_BYTES - size));
    if (kept.length === 0) return;
    field.add(kept);
    size += kept.length;
  }

  function endField(): void {
    fields.push(field.take());
    if (fields.length < ends.length) return;
    onRecord(fields);
    fields = [];
    size = 0;
  }

  return (chunk) => {
    let start = 0;
    for (;;) {
      const end = chunk.indexOf(ends[fields.length] ?? NEWLINE, start);
      add(chunk.subarray(start, end === -1 ? chunk.length : end));
      if (end === -1) return;
      endField();
      start = end + 1;
    }
  };
}

/** Text, or bytes that are no UTF-8. */
const dataSchema = z.union([
  z.object({ text: z.string() }).transform(({ text }) => Buffer.from(text, "utf8")),
  z.object({ bytes: z.string() }).transform(({ bytes }) => Buffer.from(bytes, "base64")),
]);

const lineSchema = z.object({
  type: z.enum(["match", "context"]),
  data: z.object({
    path: dataSchema,
    lines: dataSchema,
    line_number: z.number(),
    submatches: z.array(z.object({ start: z.number() })),
  }),
});

const endSchema = z.object({
  type: z.literal("end"),
  data: z.object({ binary_offset: z.number().nullable() }),
});

const summarySchema = z.object({ type: z.literal("summary") });

const recordSchema = z.discriminatedUnion("type", [lineSchema, endSchema, summarySchema]);

/** Ends a record that ripgrep was killed in: one that is too long already is told. */
export const RECORD_END = Buffer.of(NEWLINE);

/** Those that are read, by their beginnings. */
const READ_RECORD = /^\{"type":"(?:match|context|end|summary)"/;
const MAX_BEGINNING_BYTES = 20;

/**
 * Reads what `rg --json` prints. Each text that is no JSON costs the time of some thousand bytes: behind
 * the first one, which no ripgrep prints, nothing is read.
 */
export function createRipgrepReader(events: RipgrepEvents): (chunk: Uint8Array) => void {
  let isOther = false;
  return createRecordReader([NEWLINE], ([record]) => {
    if (isOther || !READ_RECORD.test(record?.toString("latin1", 0, MAX_BEGINNING_BYTES) ?? ""))
      return;
    const value = toJson(record);
    if (value === undefined) {
      const path = pathOfCutMatch(record);
      if (path !== undefined) events.found({ path, line: undefined, text: "", isMatch: true });
      isOther = record?.length !== MAX_RECORD_BYTES;
      return;
    }
    const parsed = recordSchema.safeParse(value).data;
    if (parsed === undefined) return;
    if (parsed.type === "summary") {
      events.summary();
      return;
    }
    if (parsed.type === "end") {
      events.fileEnd(parsed.data.binary_offset !== null);
      return;
    }
    const path = toPath(parsed.data.path);
    const { lines, line_number: line, submatches } = parsed.data;
    const text = cutLine(lines, submatches[0]?.start ?? 0);
    events.found({ path, line, text, isMatch: parsed.type === "match" });
  });
}

function toJson(record: Buffer | undefined): unknown {
  // A record that was cut is no JSON; the line is too long to be shown.
  return tryParseJson(record?.toString("utf8") ?? "");
}

/** The path stands first in a record, and is longest with an escape for each of its bytes. */
const MAX_PATH_BYTES = 32 * 1024;
const CUT_MATCH = /^\{"type":"match","data":\{"path":(\{"(?:text|bytes)":"(?:[^"\\]|\\.)*"\})/;

/** The file of a match whose record was cut; undefined for any other record. */
function pathOfCutMatch(record: Buffer | undefined): string | undefined {
  if (record?.length !== MAX_RECORD_BYTES) return undefined;
  const [, path = ""] = CUT_MATCH.exec(record.toString("utf8", 0, MAX_PATH_BYTES)) ?? [];
  const bytes = dataSchema.safeParse(toJson(Buffer.from(path))).data;
  return bytes && toPath(bytes);
}

/** Reads what `grep -nHZ` prints: a path, NUL, a number, a colon or a dash, and the line. */
export function createGrepReader(events: FoundEvents): (chunk: Uint8Array) => void {
  return createRecordReader([NUL, NEWLINE], ([path, rest]) => {
    const head = /^([0-9]{1,15})([:-])/.exec(rest?.toString("latin1", 0, 20) ?? "");
    if (path === undefined || rest === undefined || head === null) return;
    events.found({
      path: toPath(path),
      line: Number(head[1]),
      text: cutLine(rest.subarray(head[0].length), 0),
      isMatch: head[2] === ":",
    });
  });
}

/** Reads a list of names, each with a NUL behind it. */
export function createNameReader(onName: (name: string) => void): (chunk: Uint8Array) => void {
  return createRecordReader([NUL], ([name = Buffer.alloc(0)]) => onName(toPath(name)));
}

/** As the daemon tells a path, so that other tools take it. */
function toPath(bytes: Buffer): string {
  return toWirePath(fromSystemBytes(bytes));
}

function cutLine(line: Buffer, matchStart: number): string {
  const newline = line.indexOf(NEWLINE);
  const end = newline === -1 ? line.length : newline;
  const whole = line.subarray(0, line[end - 1] === CARRIAGE_RETURN ? end - 1 : end);
  if (whole.length <= MAX_LINE_BYTES) return whole.toString("utf8");
  const start = matchStart + LEAD_BYTES < MAX_LINE_BYTES ? 0 : matchStart - LEAD_BYTES;
  const part = whole.subarray(start, start + MAX_LINE_BYTES).toString("utf8");
  const isLast = start + MAX_LINE_BYTES >= whole.length;
  return `${start === 0 ? "" : "…"}${part}${isLast ? "" : "…"}`;
}
