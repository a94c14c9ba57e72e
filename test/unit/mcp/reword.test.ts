/** Ordinary causes in the words of a daemon, told as what they are. */

import { expect, test } from "vitest";
import { SandboxError } from "../../../src/common/errors.ts";
import { reword } from "../../../src/mcp/replies/reword.ts";

test.for([
  { words: "open /a: permission denied", code: "permission_denied" },
  { words: "error changing file ownership: operation not permitted", code: "permission_denied" },
  { words: "open /proc/xx: no such file or directory", code: "not_found" },
  { words: "error ensuring directories: path is a file: /etc/passwd", code: "invalid_argument" },
  { words: "stat /etc/xx/y: not a directory", code: "invalid_argument" },
  { words: "error writing to stdin: stdin not enabled or closed", code: "failed_precondition" },
  { words: "write /a: no space left on device", code: "resource_exhausted" },
  { words: "open /proc/xx: read-only file system", code: "failed_precondition" },
  { words: "rename /a /vol/a: invalid cross-device link", code: "failed_precondition" },
  { words: "open /a: device or resource busy", code: "failed_precondition" },
  { words: "open /a: text file busy", code: "failed_precondition" },
  { words: "removing /a: directory not empty", code: "failed_precondition" },
  { words: "open /a: too many open files", code: "resource_exhausted" },
  { words: "open /a: too many open files in system", code: "resource_exhausted" },
  { words: "mkdir /a: cannot allocate memory", code: "resource_exhausted" },
  { words: "mkdir /a: disk quota exceeded", code: "resource_exhausted" },
  { words: "open /a: resource temporarily unavailable", code: "resource_exhausted" },
  { words: "stat /a: file name too long", code: "invalid_argument" },
  { words: "stat /a: too many levels of symbolic links", code: "invalid_argument" },
  { words: "open /a: no such device or address", code: "invalid_argument" },
  { words: "open /a: is a directory", code: "invalid_argument" },
  { words: "write /a: file too large", code: "invalid_argument" },
  { words: "setxattr /a: operation not supported", code: "invalid_argument" },
  { words: "anything else", code: "internal" },
])("$words is $code", ({ words, code }) => {
  for (const message of [`read a: "${words}"`, `read a: the service answered 500 "${words}"`]) {
    const told = reword(new SandboxError("internal", message));
    expect([told.code, told.hint === undefined]).toEqual([code, code === "internal"]);
  }
});

test("a user that the sandbox does not have is no fault of the key", () => {
  const words = `start process: "invalid default user: 'user'"`;
  expect(reword(new SandboxError("unauthenticated", words))).toMatchObject({
    code: "invalid_argument",
    hint: expect.stringContaining("/etc/passwd"),
  });
  const refused = new SandboxError("unauthenticated", 'list: "invalid key"');
  expect(reword(refused)).toBe(refused);
});

test("a fault of this server stays one, and a known hint is kept", () => {
  const fault = new SandboxError("internal", "unexpected: EACCES: permission denied");
  expect(reword(fault)).toBe(fault);
  const message = 'x: "permission denied"';
  expect(reword(new SandboxError("internal", message, { hint: "Do this." })).hint).toBe("Do this.");
});
