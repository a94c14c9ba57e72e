/** Errors in log lines: where they came from, and nothing that an attacker or a key could put there. */

import { expect, test } from "vitest";
import { SandboxError } from "../../../src/common/errors.ts";
import { describeError } from "../../../src/common/log.ts";

const KEY = `e2b_${"a1".repeat(20)}`;

test("an unforeseen error has its message and the place where it was thrown", () => {
  const described = describeError(new TypeError("no such thing"));
  expect(described).toMatchObject({ type: "TypeError", message: "no such thing" });
  expect(described.stack).toMatch(/^TypeError: no such thing\n {4}at .*log-error\.test\.ts/);
});

test("a foreseen failure has code, hint and causes, and no stack", () => {
  const cause = Object.assign(new Error("connect ECONNREFUSED"), { code: "ECONNREFUSED" });
  const error = new SandboxError("unavailable", "no service", { cause, hint: "start it" });
  expect(describeError(error)).toEqual({
    type: "SandboxError",
    code: "unavailable",
    message: "no service",
    hint: "start it",
    causes: [{ type: "Error", code: "ECONNREFUSED", message: "connect ECONNREFUSED" }],
  });
});

test("an internal failure has its stack", () => {
  expect(describeError(new SandboxError("internal", "broken")).stack).toContain("    at ");
});

test("a message cannot forge frames or lines, and what is long is cut", () => {
  const forged = `a\n    at evil (evil.ts:1:1)\u202e${"x".repeat(100_000)}`;
  const { message, stack = "" } = describeError(new Error(forged));
  expect(message).not.toMatch(/[\n\u202e]/);
  expect(stack.split("\n").some((line) => line.includes("evil") && line.startsWith("    "))).toBe(
    false,
  );
  expect(JSON.stringify({ message, stack }).length).toBeLessThan(8_192);
});

test("keys and further properties of an error are left out", () => {
  const error = Object.assign(new Error(`refused ${KEY}`), { headers: { authorization: KEY } });
  const text = JSON.stringify(describeError(new Error("outer", { cause: error })));
  expect(text).not.toContain(KEY);
  expect(text).not.toContain("authorization");
  expect(text).toContain("e2b_[redacted]");
});

test("a ring of causes ends, and anything can be thrown", () => {
  const ring = new Error("ring");
  ring.cause = ring;
  expect(describeError(ring).causes).toHaveLength(4);
  const textless = { toString: () => Symbol("x") };
  const thrown: readonly unknown[] = [undefined, null, 5, "text", Symbol("s"), textless];
  expect(thrown.map((one) => describeError(one).message)).toEqual([
    "undefined",
    "null",
    "5",
    "text",
    "Symbol(s)",
    "no text",
  ]);
});
