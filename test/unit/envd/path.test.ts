/** Paths of requests become paths of the sandbox. */

import { expect, test } from "vitest";
import { baseName, joinPath, resolvePath } from "../../../src/envd/path.ts";

const scope = { userName: "user", home: "/home/user", workdir: undefined };

test.for([
  ["", "/home/user"],
  ["~", "/home/user"],
  ["~/x/../y", "/home/user/x/../y"],
  ["~\\x", "/home/user/\\x"],
  ["a//b/./c/", "/home/user/a/b/c"],
  ["../other", "/home/user/../other"],
  ["/a/../b//c/", "/a/../b//c/"],
  ["/", "/"],
] as const)("%j resolves to %j", ([path, resolved]) => {
  expect(resolvePath(path, scope)).toBe(resolved);
});

test("an empty path is the working directory, a relative one is not below it", () => {
  const withWorkdir = { ...scope, workdir: "/srv" };
  expect([resolvePath("", withWorkdir), resolvePath("a", withWorkdir)]).toEqual([
    "/srv",
    "/home/user/a",
  ]);
});

test("the home of another user cannot be named", () => {
  expect(() => resolvePath("~root/x", scope)).toThrow(
    "failed to expand path '~root/x' for user 'user': cannot expand user-specific home dir",
  );
});

test("a NUL byte is refused", () => {
  expect(() => resolvePath("/a\0b", scope)).toThrow("path contains a NUL byte");
});

test.for([
  ["/a/b", "b"],
  ["/a/b/", "b"],
  ["/", "/"],
] as const)("the name of %j is %j", ([path, name]) => {
  expect(baseName(path)).toBe(name);
});

test("joining keeps no slash at the end but the root's own, and every `..`", () => {
  expect([joinPath("/", ""), joinPath("/a/", "b/"), joinPath("/a/..", "./b")]).toEqual([
    "/",
    "/a/b",
    "/a/../b",
  ]);
});
