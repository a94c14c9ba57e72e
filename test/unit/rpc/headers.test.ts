/** Our headers beside those of a whole `fetch`: the same names, values, order and refusals. */

import { Headers as WholeHeaders } from "undici";
import { expect, test } from "vitest";
import { LightHeaders as Headers } from "../../../src/rpc/headers.ts";

const NAMES = ["b", "A", "content-type", "Set-Cookie", "set-cookie", "x-1"];
const VALUES = ["1", " padded\t", "a, b", "", "é"];
const ROUNDS = 2_000;

/** Both forms of it, with everything that can be read out of them. */
function describe(headers: Headers | WholeHeaders) {
  const visited: string[] = [];
  headers.forEach((value, name) => visited.push(`${name}=${value}`));
  return {
    visited,
    pairs: [...headers],
    entries: [...headers.entries()],
    keys: [...headers.keys()],
    values: [...headers.values()],
    cookies: headers.getSetCookie(),
    found: NAMES.map((name) => [headers.has(name), headers.get(name)]),
  };
}

test("any sequence of changes leaves what the standard's own would have", () => {
  expect(Headers).not.toBe(WholeHeaders);
  const ours = new Headers();
  const theirs = new WholeHeaders();
  // Every combination comes up: the steps are coprime to the numbers of names and values.
  for (let round = 0; round < ROUNDS; round += 1) {
    const name = NAMES[(round * 7) % NAMES.length] ?? "";
    const value = VALUES[(round * 13 + Math.floor(round / 11)) % VALUES.length] ?? "";
    for (const headers of [ours, theirs]) {
      if (round % 5 < 3) headers.append(name, value);
      else if (round % 5 === 3) headers.set(name, value);
      else headers.delete(name);
    }
    expect(describe(ours)).toEqual(describe(theirs));
  }
});

test("it is made from pairs, from a record and from another one", () => {
  const record = { B: "2", a: " 1 " };
  const pairs: [string, string][] = [...Object.entries(record), ["a", "3"]];
  expect(describe(new Headers(record))).toEqual(describe(new WholeHeaders(record)));
  expect(describe(new Headers(pairs))).toEqual(describe(new WholeHeaders(pairs)));
  expect(describe(new Headers(new Headers(pairs)))).toEqual(describe(new WholeHeaders(pairs)));
  expect(describe(new Headers(undefined))).toEqual(describe(new WholeHeaders()));
});

test.each(["", "a b", "a\n", "ä", "a:"])("the name %j is refused", (name) => {
  for (const headers of [new Headers(), new WholeHeaders()]) {
    for (const act of [
      () => headers.append(name, "1"),
      () => headers.set(name, "1"),
      () => headers.get(name),
      () => headers.has(name),
      () => headers.delete(name),
    ]) {
      expect(act).toThrow(TypeError);
    }
  }
});

test.each(["a\nb", "a\r\nb: c", "\0"])("the value %j is refused", (value) => {
  for (const headers of [new Headers(), new WholeHeaders()]) {
    expect(() => headers.append("a", value)).toThrow(TypeError);
    expect(() => headers.set("a", value)).toThrow(TypeError);
  }
});

test("a value with very many spaces inside is kept, in time that grows with it alone", () => {
  const value = `a${" ".repeat(500_000)}b`;
  expect(new Headers({ a: `${value}  ` }).get("a")).toBe(value);
});
