/** Networks have one spelling before they become rules, and rules that let nothing through are none. */

import { expect, test } from "vitest";
import { toCanonical } from "../../../src/engine/network/egress.ts";
import { toEgress } from "../../../src/sandboxes/egress.ts";

test("an address is a network of one, and host bits are cut off", () => {
  const rules = {
    allow: ["192.0.2.77", "198.51.100.99/24", "255.255.255.255/1"],
    deny: ["0.0.0.0/0"],
    domains: ["Example.TEST.", "*.Bücher.test", "*"],
  };
  expect(toCanonical(rules)).toEqual({
    allow: ["192.0.2.77/32", "198.51.100.0/24", "128.0.0.0/1"],
    deny: ["0.0.0.0/0"],
    domains: ["example.test", "*.xn--bcher-kva.test", "*"],
  });
});

test("denying everything without an exception is no network at all", () => {
  expect(toCanonical({ allow: [], deny: ["1.2.3.4/0"], domains: [] })).toBe("none");
  expect(toCanonical("none")).toBe("none");
});

test.for([
  "",
  "1.2.3",
  "1.2.3.4/33",
  "1.2.3.4/0x8",
  "1.2.3.4/8/8",
  "01.2.3.4",
  "::1",
  "a.test",
  "1.2.3.4 ; flush",
])("what is no IPv4 network is refused: %j", async (entry) => {
  expect(() => toCanonical({ allow: [], deny: [entry], domains: [] })).toThrow(
    /not an IPv4 network/,
  );
});

test("no internet access denies everything, and IPv6 entries have no effect", () => {
  const wish = {
    allowsInternet: false,
    allowOut: ["192.0.2.1", "2001:db8::/32"],
    denyOut: ["::/0"],
  };
  expect(toEgress(wish)).toEqual({
    allow: ["192.0.2.1/32"],
    deny: ["0.0.0.0/0"],
    domains: [],
  });
});

test("what is no address is a name, and keeps a sandbox connected", () => {
  const wish = { allowsInternet: false, allowOut: ["*.Example.test", "192.0.2.1"] };
  expect(toEgress(wish)).toEqual({
    allow: ["192.0.2.1/32"],
    deny: ["0.0.0.0/0"],
    domains: ["*.example.test"],
  });
  const alone = { allowsInternet: true, allowOut: ["*"], denyOut: ["0.0.0.0/0"] };
  expect(toEgress(alone)).toEqual({ allow: [], deny: ["0.0.0.0/0"], domains: ["*"] });
});

test.for(["a b.test", "a.test/24", "*.*.test", "a*.test", "1.2.3", "0x7f.1", "-a.test", "a..test"])(
  "what is no name of a host is refused: %j",
  async (entry) => {
    expect(() => toEgress({ allowsInternet: true, allowOut: [entry] })).toThrow(
      /not a name of a host|not an IPv4 network/,
    );
  },
);

test("an IPv4 address in the clothes of IPv6 is refused", () => {
  const mapped = { allowsInternet: true, denyOut: ["::ffff:192.0.2.1"] };
  expect(() => toEgress(mapped)).toThrow(/write ::ffff:192.0.2.1 as an IPv4 network/);
});
