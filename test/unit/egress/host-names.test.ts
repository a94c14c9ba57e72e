/** One spelling for hostnames, and which names a pattern means. */

import { expect, test } from "vitest";
import { isNamed, toHostName, toNamePattern } from "../../../src/egress/host-names.ts";
import { createRandom, mutate } from "../../support/random.ts";

const MUTATIONS = 3_000;
const LONG_LABEL = "a".repeat(63);

test.for([
  ["Example.COM", "example.com"],
  ["example.com.", "example.com"],
  ["xn--bcher-kva.test", "xn--bcher-kva.test"],
  ["_dns.a-b.test", "_dns.a-b.test"],
  ["localhost", "localhost"],
  ["1.2.3.4.test", "1.2.3.4.test"],
  [`${LONG_LABEL}.test`, `${LONG_LABEL}.test`],
] as const)("%s is the host %s", ([text, name]) => {
  expect(toHostName(text)).toBe(name);
});

test.for([
  "",
  ".",
  ".test",
  "a..test",
  "a.test..",
  "a\0.test",
  "a.test\r\n",
  " a.test",
  "a@b.test",
  "a.test:80",
  "[::1]",
  "1.2.3.4",
  "017700000001",
  "0x7f.1",
  "a.0x",
  "bücher.test",
  // Its lower case is an ASCII letter.
  "\u212A.test",
  "-a.test",
  "a-.test",
  `${LONG_LABEL}a.test`,
  `${"a.".repeat(127)}aa`,
])("%j is no name of a host", (text) => {
  expect(toHostName(text)).toBeUndefined();
});

test("patterns are canonical names, with or without a star before them, or a star alone", () => {
  const patterns = ["*", "*.Example.com.", "A.test", "Bücher.test", "*.BÜCHER.test"];
  expect(patterns.map((text) => toNamePattern(text))).toEqual([
    "*",
    "*.example.com",
    "a.test",
    "xn--bcher-kva.test",
    "*.xn--bcher-kva.test",
  ]);
  const faulty = [
    "**",
    "*.",
    "*a.test",
    "a.*.test",
    "*.*.test",
    "1.2.3.4",
    "*.1",
    "a b.test",
    "ü b",
  ];
  for (const text of faulty) expect(toNamePattern(text)).toBeUndefined();
});

function meant(pattern: string): string[] {
  const names = ["a.test", "b.a.test", "c.b.a.test", "ba.test", "test"];
  return names.filter((name) => isNamed(name, [pattern]));
}

test("a name means itself, a star before it what lies below it, a star alone everything", () => {
  expect(meant("a.test")).toEqual(["a.test"]);
  expect(meant("*.a.test")).toEqual(["b.a.test", "c.b.a.test"]);
  expect(meant("*")).toHaveLength(5);
  expect(isNamed("a.test", [])).toBe(false);
});

test("whatever is given is no pattern, or one in its only spelling", () => {
  const texts = ["*.Bücher.example.com.", "A.example.test", "xn--bcher-kva.test"];
  for (let seed = 0; seed < MUTATIONS; seed += 1) {
    const random = createRandom(seed);
    const text = mutate(random, Buffer.from(random.pick(texts))).toString("utf8");
    const pattern = toNamePattern(text) ?? "*";
    expect(pattern).toMatch(/^(?:\*|(?:\*\.)?[a-z0-9_.-]+)$/);
    expect(toNamePattern(pattern)).toBe(pattern);
  }
});
