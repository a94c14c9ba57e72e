/** Pages: every item once, in order, also when items come and go between two pages. */

import { expect, test } from "vitest";
import { paginate, type Order, type Position } from "../../../src/sandboxes/paging.ts";

const ITEMS: readonly Position[] = [
  { atMs: 3000, id: "c" },
  { atMs: 1000, id: "a" },
  { atMs: 3000, id: "b" },
  { atMs: 2000, id: "d" },
];

function ids(order: Order, limit: number, items = ITEMS): string[][] {
  const pages: string[][] = [];
  let token: string | undefined;
  do {
    const page = paginate(items, { positionOf: (item) => item }, { order, limit, token });
    pages.push(page.items.map(({ id }) => id));
    token = page.nextToken;
  } while (token !== undefined);
  return pages;
}

test.for([
  { order: "desc" as const, limit: 3, expected: [["b", "c", "d"], ["a"]] },
  { order: "asc" as const, limit: 3, expected: [["a", "d", "c"], ["b"]] },
  { order: "desc" as const, limit: 4, expected: [["b", "c", "d", "a"]] },
  {
    order: "desc" as const,
    limit: 2,
    expected: [
      ["b", "c"],
      ["d", "a"],
    ],
  },
  { order: "desc" as const, limit: Infinity, expected: [["b", "c", "d", "a"]] },
])("$order by $limit", ({ order, limit, expected }) => {
  expect(ids(order, limit)).toEqual(expected);
});

test("the page after a vanished item goes on behind it", () => {
  const first = paginate(
    ITEMS,
    { positionOf: (item) => item },
    { order: "desc", limit: 2, token: undefined },
  );
  const left = ITEMS.filter(({ id }) => id !== "c");
  const token = first.nextToken;
  const second = paginate(left, { positionOf: (item) => item }, { order: "desc", limit: 2, token });
  expect(second).toEqual({
    items: [
      { atMs: 2000, id: "d" },
      { atMs: 1000, id: "a" },
    ],
  });
});

test("an empty token is the first page", () => {
  const page = paginate(
    ITEMS,
    { positionOf: (item) => item },
    { order: "desc", limit: 1, token: "" },
  );
  expect(page.items).toEqual([{ atMs: 3000, id: "b" }]);
});

const encode = (text: string) => Buffer.from(text).toString("base64url");

test.for([
  { name: "no base64", token: "%%%", order: "desc" as const },
  { name: "other text", token: encode("hello"), order: "desc" as const },
  { name: "no time", token: encode("2026-13-41T00:00:00.000Z__a"), order: "desc" as const },
  {
    name: "other order",
    token: encode("2026-01-01T00:00:00.000Z__a__asc"),
    order: "desc" as const,
  },
  { name: "other order", token: encode("2026-01-01T00:00:00.000Z__a"), order: "asc" as const },
])("a token with $name is refused", ({ token, order }) => {
  expect(() => paginate(ITEMS, { positionOf: (item) => item }, { order, limit: 2, token })).toThrow(
    expect.objectContaining({ code: "invalid_argument", message: "Invalid next token" }),
  );
});

test("a page of heavy items ends before they exceed 8 MiB, but never before its first", () => {
  const heavy = [5, 3, 1, 20, 1].map((mib, index) => ({ atMs: 10 - index, id: `${index}`, mib }));
  const view = {
    positionOf: (item: (typeof heavy)[number]) => item,
    weigh: ({ mib }: (typeof heavy)[number]) => mib * 1_048_576,
  };
  const pages: string[][] = [];
  let token: string | undefined;
  do {
    const page = paginate(heavy, view, { order: "desc", limit: Infinity, token });
    pages.push(page.items.map(({ id }) => id));
    token = page.nextToken;
  } while (token !== undefined);
  expect(pages).toEqual([["0", "1"], ["2"], ["3"], ["4"]]);
});
