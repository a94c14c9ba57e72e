/** Networks have one spelling before they become rules, and rules that let nothing through are none. */

import { expect, test } from "vitest";
import { toCanonical } from "../../../src/engine/egress.ts";
import { toEgress } from "../../../src/sandboxes/egress.ts";

test("an address is a network of one, and host bits are cut off", () => {
  const rules = {
    allow: ["192.0.2.77", "198.51.100.99/24", "255.255.255.255/1"],
    deny: ["0.0.0.0/0"],
  };
  expect(toCanonical(rules)).toEqual({
    allow: ["192.0.2.77/32", "198.51.100.0/24", "128.0.0.0/1"],
    deny: ["0.0.0.0/0"],
  });
});

test("denying everything without an exception is no network at all", () => {
  expect(toCanonical({ allow: [], deny: ["1.2.3.4/0"] })).toBe("none");
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
  expect(() => toCanonical({ allow: [], deny: [entry] })).toThrow(/not an IPv4 network/);
});

test("no internet access denies everything, and IPv6 entries have no effect", () => {
  const wish = {
    allowsInternet: false,
    allowOut: ["192.0.2.1", "2001:db8::/32"],
    denyOut: ["::/0"],
  };
  expect(toEgress(wish)).toEqual({ allow: ["192.0.2.1/32"], deny: ["0.0.0.0/0"] });
});

test("a domain, and an IPv4 address in the clothes of IPv6, are refused", () => {
  const domain = { allowsInternet: true, allowOut: ["*.example.test"] };
  expect(() => toEgress(domain)).toThrow(/domains in allowOut are not available/);
  const mapped = { allowsInternet: true, denyOut: ["::ffff:192.0.2.1"] };
  expect(() => toEgress(mapped)).toThrow(/write ::ffff:192.0.2.1 as an IPv4 network/);
});
