/** Conditional and partial requests: what of a file is sent, or why nothing is. */

/** The headers that decide; undefined where the client sent none. */
export interface ConditionHeaders {
  readonly ifMatch: string | undefined;
  readonly ifUnmodifiedSince: string | undefined;
  readonly ifNoneMatch: string | undefined;
  readonly ifModifiedSince: string | undefined;
  readonly ifRange: string | undefined;
  readonly range: string | undefined;
}

export interface FileState {
  readonly size: number;
  readonly modifiedMs: number;
}

/** A part of a file, both ends included. */
export interface Part {
  readonly start: number;
  readonly end: number;
}

/** Whole file, one or several parts of it, or only a status. */
export type Delivery =
  | { readonly kind: "whole" }
  | ({ readonly kind: "part" } & Part)
  | { readonly kind: "parts"; readonly parts: readonly Part[] }
  | { readonly kind: "none"; readonly status: 304 | 412 | 416 };

/** Files here have no entity tag: only `*` matches, and dates count in whole seconds. */
export function decideDelivery(headers: ConditionHeaders, file: FileState): Delivery {
  if (!mayProceed(headers, file)) return { kind: "none", status: 412 };
  if (isUnchanged(headers, file)) return { kind: "none", status: 304 };
  if (headers.range === undefined || !rangeCounts(headers.ifRange, file)) return { kind: "whole" };
  return parseRange(headers.range, file.size);
}

function mayProceed({ ifMatch, ifUnmodifiedSince }: ConditionHeaders, file: FileState): boolean {
  if (ifMatch !== undefined) return ifMatch.trim() === "*";
  const since = toSeconds(ifUnmodifiedSince);
  return since === undefined || secondsOf(file) <= since;
}

function isUnchanged({ ifNoneMatch, ifModifiedSince }: ConditionHeaders, file: FileState): boolean {
  if (ifNoneMatch !== undefined) return ifNoneMatch.trim() === "*";
  const since = toSeconds(ifModifiedSince);
  return since !== undefined && secondsOf(file) <= since;
}

function rangeCounts(ifRange: string | undefined, file: FileState): boolean {
  return ifRange === undefined || toSeconds(ifRange) === secondsOf(file);
}

function secondsOf(file: FileState): number {
  return Math.floor(file.modifiedMs / 1000);
}

/** The three forms of RFC 9110, 5.6.7; a condition with any other text does not count. */
const DATE_PATTERN =
  /^[A-Z][a-z]+(?:, \d\d([ -])[A-Z][a-z]{2}\1\d{2,4} \d\d:\d\d:\d\d| [A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \d{4})(?: GMT)?$/;

export function isHttpDate(text: string): boolean {
  return DATE_PATTERN.test(text);
}

function toSeconds(date = ""): number | undefined {
  if (!isHttpDate(date)) return undefined;
  const parsed = Date.parse(date.endsWith(" GMT") ? date : `${date} GMT`);
  return Number.isNaN(parsed) ? undefined : Math.floor(parsed / 1000);
}

const RANGE_PATTERN = /^([0-9]*)\s*-\s*([0-9]*)$/;

/** More are answered by the whole file: each costs a read and a head of its own. */
const MAX_PARTS = 256;

/** Ranges as parts; those outside the file do not count, and parts larger than it are the whole. */
function parseRange(header: string, size: number): Delivery {
  const unsatisfiable: Delivery = { kind: "none", status: 416 };
  if (!header.startsWith("bytes=")) return unsatisfiable;
  const specs = header
    .slice("bytes=".length)
    .split(",")
    .map((spec) => spec.trim());
  const wanted = specs.filter((spec) => spec !== "").map((spec) => parseSpec(spec, size));
  if (wanted.includes("invalid")) return unsatisfiable;
  if (size === 0 || wanted.length > MAX_PARTS) return { kind: "whole" };
  const parts = wanted.filter((part) => typeof part === "object");
  const [first] = parts;
  if (first === undefined) return unsatisfiable;
  const total = parts.reduce((sum, part) => sum + part.end - part.start + 1, 0);
  if (total > size) return { kind: "whole" };
  return parts.length === 1 ? { kind: "part", ...first } : { kind: "parts", parts };
}

function parseSpec(spec: string, size: number): Part | "outside" | "invalid" {
  const match = RANGE_PATTERN.exec(spec);
  const [, first = "", last = ""] = match ?? [];
  if (match === null || (first === "" && last === "")) return "invalid";
  if (first === "") {
    const length = Number(last);
    return length === 0 ? "outside" : { start: Math.max(size - length, 0), end: size - 1 };
  }
  const start = Number(first);
  if (last !== "" && Number(last) < start) return "invalid";
  if (start >= size) return "outside";
  return { start, end: last === "" ? size - 1 : Math.min(Number(last), size - 1) };
}
