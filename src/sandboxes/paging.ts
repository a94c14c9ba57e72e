/** Lists in pages. A token names the last item of a page, so that no item comes twice. */

import { SandboxError } from "../common/errors.ts";
import { MESSAGES } from "../wire/messages.ts";

export type Order = "asc" | "desc";

/** Where an item stands: by time, ties by identifier. */
export interface Position {
  readonly atMs: number;
  readonly id: string;
}

export interface PageRequest {
  readonly order: Order;
  readonly limit: number;
  /** As an earlier page gave it out; absent or empty for the first page. */
  readonly token: string | undefined;
}

export interface Page<T> {
  readonly items: readonly T[];
  /** Absent on the last page. */
  readonly nextToken?: string;
}

/** Of a page; a reply is a few times as large while it is made. */
const MAX_PAGE_BYTES = 8_388_608;

/** What is asked of each item of a list. */
interface ItemView<T> {
  positionOf(item: T): Position;
  /** Its bytes in a reply; absent where all items are small. */
  weigh?(item: T): number;
}

/**
 * One page of items, newest first or the exact reverse. Where items have a weight, the page ends
 * before they exceed 8 MiB, but never before its first.
 * @throws SandboxError invalid_argument when the token is not one of ours for this order.
 */
export function paginate<T>(items: readonly T[], view: ItemView<T>, request: PageRequest): Page<T> {
  const { order } = request;
  const compare = (left: T, right: T) =>
    comparePositions(view.positionOf(left), view.positionOf(right), order);
  const sorted = items.toSorted(compare);
  const after = lastPosition(request);
  const rest =
    after === undefined
      ? sorted
      : sorted.filter((item) => comparePositions(view.positionOf(item), after, order) > 0);
  return beginPage(rest, view, request);
}

/**
 * Where the page before this one ended; undefined for the first page.
 * @throws SandboxError as `paginate`
 */
export function lastPosition({ token, order }: PageRequest): Position | undefined {
  return token === undefined || token === "" ? undefined : decodeToken(token, order);
}

/** The page that begins with the first of the items, which are in order. */
export function beginPage<T>(
  items: readonly T[],
  view: ItemView<T>,
  { limit, order }: PageRequest,
): Page<T> {
  const page = fit(items.slice(0, limit), view);
  const last = page.at(-1);
  if (last === undefined || items.length <= page.length) return { items: page };
  return { items: page, nextToken: encodeToken(view.positionOf(last), order) };
}

function fit<T>(items: readonly T[], view: ItemView<T>): readonly T[] {
  let bytes = 0;
  const end = items.findIndex((item, index) => {
    bytes += view.weigh?.(item) ?? 0;
    return index > 0 && bytes > MAX_PAGE_BYTES;
  });
  return end === -1 ? items : items.slice(0, end);
}

/** Of items of the same millisecond, the id decides, in the other direction for the other order. */
export function comparePositions(left: Position, right: Position, order: Order): number {
  const newestFirst = right.atMs - left.atMs || compareText(left.id, right.id);
  return order === "desc" ? newestFirst : -newestFirst;
}

function compareText(left: string, right: string): number {
  if (left === right) return 0;
  return left < right ? -1 : 1;
}

function encodeToken(position: Position, order: Order): string {
  const suffix = order === "asc" ? "__asc" : "";
  const text = `${new Date(position.atMs).toISOString()}__${position.id}${suffix}`;
  return Buffer.from(text, "utf8").toString("base64url");
}

const TOKEN_PATTERN = /^([0-9TZ:.-]{20,40})__([a-z0-9-]{1,64})(__asc)?$/;

function decodeToken(token: string, order: Order): Position {
  const text = Buffer.from(token, "base64url").toString("utf8");
  const [, time, id, suffix] = TOKEN_PATTERN.exec(text) ?? [];
  const atMs = Date.parse(time ?? "");
  const tokenOrder = suffix === undefined ? "desc" : "asc";
  if (id === undefined || Number.isNaN(atMs) || tokenOrder !== order) {
    throw new SandboxError("invalid_argument", MESSAGES.invalidNextToken);
  }
  return { atMs, id };
}
