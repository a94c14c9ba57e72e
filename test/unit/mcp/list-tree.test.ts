/** Listings that go on past directories which may not be read. */

import { expect, test } from "vitest";
import type { Entry } from "../../../src/client/filesystem.ts";
import { SandboxError } from "../../../src/common/errors.ts";
import { listTree, type ListDirectory } from "../../../src/mcp/files/list-tree.ts";

function entry(path: string, type: Entry["type"], symlinkTarget?: string): Entry {
  return {
    name: path.split("/").at(-1) ?? "",
    path,
    type,
    sizeBytes: 0,
    mode: 0,
    permissions: "",
    owner: "",
    group: "",
    modifiedAt: undefined,
    symlinkTarget,
  };
}

/** Links to directories, which a daemon shows as directories and does not enter. */
const LINKS: Readonly<Record<string, string>> = { "/a/link": "/a/d" };

/** A tree of directories by their children; those of `closed` may not be read. */
function treeOf(children: Readonly<Record<string, readonly string[]>>, closed: readonly string[]) {
  const state = { calls: 0 };
  const below = (path: string, depth: number): Entry[] => {
    if (closed.includes(path)) {
      throw new SandboxError("internal", `list: "reading ${path}: permission denied"`);
    }
    return (children[path] ?? []).flatMap((name) => {
      const child = `${path === "/" ? "" : path}/${name}`;
      if (child in LINKS) return [entry(child, "directory", LINKS[child])];
      const isDirectory = child in children;
      const own = entry(child, isDirectory ? "directory" : "file");
      return [own, ...(isDirectory && depth > 1 ? below(child, depth - 1) : [])];
    });
  };
  const list: ListDirectory = async (path, depth) => {
    state.calls += 1;
    return below(path, depth);
  };
  return { list, state };
}

const CHILDREN = {
  "/a": ["b", "c", "d"],
  "/a/b": ["x"],
  "/a/c": ["e", "y"],
  "/a/c/e": ["z"],
  "/a/d": ["w"],
};

test("a tree that may be read is one call", async () => {
  const { list, state } = treeOf(CHILDREN, []);
  const { entries, unreadable } = await listTree(list, "/a", { depth: 3 });
  expect([entries.length, unreadable, state.calls]).toEqual([8, [], 1]);
});

test("what may not be read is named, and the rest is listed in order", async () => {
  const { list } = treeOf(CHILDREN, ["/a/b", "/a/c/e"]);
  const { entries, unreadable, isCut } = await listTree(list, "/a", { depth: 3 });
  expect(entries.map(({ path }) => path)).toEqual([
    "/a/b",
    "/a/c",
    "/a/c/e",
    "/a/c/y",
    "/a/d",
    "/a/d/w",
  ]);
  expect([unreadable, isCut]).toEqual([["/a/b", "/a/c/e"], false]);
});

test("a directory that may not be read itself is an error", async () => {
  const { list } = treeOf(CHILDREN, ["/a"]);
  await expect(listTree(list, "/a", { depth: 3 })).rejects.toThrow("permission denied");
});

test("a tree of many closed directories ends after so many calls, and says so", async () => {
  const names = Array.from({ length: 1_000 }, (_, index) => `n${index}`);
  const closed = names.map((name) => `/r/${name}`);
  const children = Object.fromEntries([["/r", names], ...closed.map((path) => [path, ["x"]])]);
  const { list, state } = treeOf(children, closed);
  const { entries, isCut } = await listTree(list, "/r", { depth: 2 });
  expect([entries.length, isCut, state.calls <= 310]).toEqual([1_000, true, true]);
});

test("a link to a directory is not entered, in a tree with a closed directory either", async () => {
  const children = { "/a": ["b", "d", "link"], "/a/b": ["x"], "/a/d": ["w"], "/a/link": ["w"] };
  const { list } = treeOf(children, ["/a/b"]);
  const { entries } = await listTree(list, "/a", { depth: 3 });
  expect(entries.map(({ path }) => path)).toEqual(["/a/b", "/a/d", "/a/d/w", "/a/link"]);
});

const ROOT = { "/": ["etc", "proc", "sys"], "/etc": ["x"], "/proc": ["1"], "/sys": ["kernel"] };

test.for(["/", "//", "/etc/.."])(
  "%s at a depth leaves out what the kernel makes up",
  async (path) => {
    const { list } = treeOf({ ...ROOT, [path]: ROOT["/"] }, []);
    const { entries, skipped, isCut } = await listTree(
      (from, depth) => list(from === path ? "/" : from, depth),
      path,
      { depth: 10 },
    );
    expect(entries.map((each) => each.path)).toEqual(["/etc", "/etc/x", "/proc", "/sys"]);
    expect([skipped, isCut]).toEqual([["/proc", "/sys"], false]);
  },
);

test("a home of many directories is listed whole, relative to where it is", async () => {
  const names = Array.from({ length: 400 }, (_, index) => `n${index}`);
  const rows = names.map((name) => [`/home/${name}`, ["x"]]);
  const { list, state } = treeOf(Object.fromEntries([["/home", names], ...rows]), []);
  const { entries, isCut } = await listTree(
    (from, depth) => list(from === "." ? "/home" : from, depth),
    ".",
    { depth: 2 },
  );
  expect([entries.length, isCut, state.calls]).toEqual([800, false, 2]);
});

test("/proc itself is listed", async () => {
  const { list } = treeOf(ROOT, []);
  const { entries, skipped } = await listTree(list, "/proc", { depth: 10 });
  expect([entries.map(({ path }) => path), skipped]).toEqual([["/proc/1"], []]);
});

test("entries of the last directory that are beyond the limit are told to be missing", async () => {
  const names = Array.from({ length: 20_000 }, (_, index) => `f${index}`);
  const { list } = treeOf({ "/a": ["b", "c"], "/a/b": [], "/a/c": names }, ["/a/b"]);
  const { entries, isCut } = await listTree(list, "/a", { depth: 2 });
  expect([entries.length, isCut]).toEqual([20_000, true]);
});

test("a listing of many slow calls ends when its time is over", async () => {
  const late = new AbortController();
  const names = Array.from({ length: 400 }, (_, index) => `d${index}`);
  const rows = names.map((name) => [`/a/${name}`, ["x"]]);
  const closed = ["/a/d0"];
  const { list, state } = treeOf(Object.fromEntries([["/a", names], ...rows]), closed);
  const slow: ListDirectory = (path, depth) => {
    if (path === "/a/d2") late.abort();
    return list(path, depth);
  };
  const { entries, isCut } = await listTree(slow, "/a", { depth: 2, deadline: late.signal });
  // The whole, the directory itself, and three below it.
  expect([entries.length, isCut, state.calls]).toEqual([402, true, 5]);
});

/** Fails a listing of more entries than one reply holds, as daemons do. */
function bounded(list: ListDirectory, most: number): ListDirectory {
  return async (path, depth) => {
    const entries = await list(path, depth);
    if (entries.length <= most) return entries;
    throw new SandboxError("resource_exhausted", `list: "more than ${most} entries"`);
  };
}

const LARGE = {
  "/": ["a", "b", "etc", "proc"],
  "/a": ["x", "y"],
  "/a/x": ["1", "2", "3", "4"],
  "/a/y": ["5"],
  "/b": ["1", "2", "3", "4", "5", "6"],
  "/etc": ["hosts"],
  "/proc": ["1"],
};

test.for(["/", "/r"])(
  "a part of %s that is too large is named, and the rest is listed",
  async (path) => {
    const { list } = treeOf(path === "/" ? LARGE : { ...LARGE, "/r": LARGE["/"] }, []);
    const below: ListDirectory = (from, depth) => list(from === path ? "/" : from, depth);
    const { entries, large, isCut } = await listTree(bounded(below, 5), path, { depth: 3 });
    const paths = entries.map((each) => each.path).filter((each) => !each.startsWith("/proc"));
    // Of the first one its own entries are shown; the second has too many of these.
    expect(paths).toEqual(["/a", "/a/x", "/a/y", "/b", "/etc", "/etc/hosts"]);
    expect([large, isCut]).toEqual([["/a", "/b"], false]);
  },
);

test("a directory that is too large itself is an error, and so is another exhausted resource", async () => {
  const { list } = treeOf(LARGE, []);
  const whole = listTree(bounded(list, 5), "/b", { depth: 3 });
  await expect(whole).rejects.toThrow("more than 5 entries");
  const busy: ListDirectory = async (path, depth) => {
    if (path === "/") return list(path, depth);
    throw new SandboxError("resource_exhausted", 'list: "too many requests"');
  };
  await expect(listTree(busy, "/", { depth: 2 })).rejects.toThrow("too many requests");
});
