/** What `..` of a path means where links, files and missing names are before it. */

import { mkdir, mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, test } from "vitest";
import { MAX_PATH_CHARACTERS, parentPlace, tidyPath } from "../../../src/envd/parent-path.ts";

/** `link` leads to `far/deep`, `broken` nowhere; `near` is a directory and `file` a file. */
async function testTree() {
  const top = await mkdtemp(join(tmpdir(), "place-"));
  await mkdir(join(top, "far/deep"), { recursive: true });
  await mkdir(join(top, "near"));
  await writeFile(join(top, "file"), "");
  await symlink("far/deep", join(top, "link"));
  await symlink("nowhere", join(top, "broken"));
  return { top, [Symbol.asyncDispose]: () => rm(top, { recursive: true }) };
}

test.for([
  ["/near/../x", "/x"],
  ["//near/./..//x/", "/x"],
  ["/missing/../x", "/x"],
  ["/link/../x", "/link/../x"],
  ["/link/../../x", "/link/../../x"],
  ["/link/../deep/../x", "/link/../x"],
  ["/near/../link/..", "/link/.."],
  ["/broken/../x", "/broken/../x"],
  ["/file/../x", "/file/../x"],
] as const)("%j is %j", async ([path, tidied]) => {
  await using tree = await testTree();
  expect(await tidyPath(tree.top + path)).toBe(tree.top + tidied);
});

test("above the root is the root", async () => {
  expect([await tidyPath("/../.."), await tidyPath("/")]).toEqual(["/", "/"]);
});

test("a path that the kernel refuses is not looked at", async () => {
  const path = "/..".repeat(MAX_PATH_CHARACTERS);
  expect(await tidyPath(path)).toBe(path);
});

test.for([
  ["/near/b", "/near"],
  ["/near/b/", "/near/b"],
  ["/near/b/.", "/near/b"],
  ["/near/b/..", "/near"],
  ["/near/..b", "/near"],
  ["/near/../b/c", "/b"],
  ["/link/../b", "/link/.."],
] as const)("%j needs the directory %j", async ([path, parent]) => {
  await using tree = await testTree();
  expect(await parentPlace(tree.top + path)).toBe(tree.top + parent);
});
