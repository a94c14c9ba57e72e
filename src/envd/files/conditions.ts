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

/** Whole file, a part of it (both ends included), or only a status. */
export type Delivery =
  | { readonly kind: "whole" }
  | { readonly kind: "part"; readonly start: number; readonly end: number }
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

function toSeconds(date: string | undefined): number | undefined {
  const parsed = Date.parse(date ?? "");
  return Number.isNaN(parsed) ? undefined : Math.floor(parsed / 1000);
}

const RANGE_PATTERN = /^([0-9]{0,15})\s*-\s*([0-9]{0,15})$/;

/**
 * One range as a part. Several are answered by the whole file, which is allowed and which no
 * client of this wire asks for.
 */
function parseRange(header: string, size: number): Delivery {
  const unsatisfiable: Delivery = { kind: "none", status: 416 };
  if (!header.startsWith("bytes=")) return unsatisfiable;
  const specs = header.slice("bytes=".length).split(",");
  if (specs.length > 1) return { kind: "whole" };
  const match = RANGE_PATTERN.exec(specs[0]?.trim() ?? "");
  const [, first = "", last = ""] = match ?? [];
  if (match === null || (first === "" && last === "")) return unsatisfiable;
  if (size === 0) return { kind: "whole" };
  if (first === "") return suffix(Number(last), size) ?? unsatisfiable;
  const start = Number(first);
  const end = last === "" ? size - 1 : Math.min(Number(last), size - 1);
  return start > end ? unsatisfiable : { kind: "part", start, end };
}

function suffix(length: number, size: number): Delivery | undefined {
  if (length === 0) return undefined;
  return { kind: "part", start: Math.max(size - length, 0), end: size - 1 };
}
