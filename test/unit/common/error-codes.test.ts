/** Codes of the system on errors, and on what caused them. */

import { expect, test } from "vitest";
import { isCode, SandboxError } from "../../../src/common/errors.ts";

const missing = Object.assign(new Error("no file"), { code: "ENOENT" });

test.for([
  { title: "its own", error: missing, is: true },
  { title: "that of a cause", error: new Error("failed", { cause: missing }), is: true },
  {
    title: "that below ours, which is none of the system",
    error: new SandboxError("not_found", "failed", { cause: missing }),
    is: true,
  },
  { title: "another one", error: Object.assign(new Error("full"), { code: "ENOSPC" }), is: false },
  { title: "a number", error: Object.assign(new Error("odd"), { code: 2 }), is: false },
  { title: "none", error: new Error("plain"), is: false },
  { title: "no error", error: { code: "ENOENT" }, is: false },
])("an error has one of the codes: $title", ({ error, is }) => {
  expect(isCode(error, "ENOTDIR", "ENOENT")).toBe(is);
});

test("without codes no error has one", () => {
  expect(isCode(missing)).toBe(false);
  expect(isCode(new Error("plain"))).toBe(false);
});
