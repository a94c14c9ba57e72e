/** The files and folders that the source of a COPY step names, none of them outside of its folder. */

import { lstat, readdir, realpath } from "node:fs/promises";
import { join, sep } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { quoteUntrusted } from "../../common/untrusted-text.ts";
import { isPattern, toMatcher } from "./wildcard.ts";

interface Search {
  /** Without a link in it. */
  readonly root: string;
  readonly parts: readonly string[];
  /** What was looked at: with several `**` one folder is met on many ways. */
  readonly seen: Set<string>;
}

/**
 * Paths relative to the folder, by `*`, `?`, classes and `**`. Links are names of their own; one on
 * the way to a file is followed within the folder.
 * @throws SandboxError invalid_argument for a way that leads out of the folder by a link.
 */
export async function* findSources(folder: string, source: string): AsyncGenerator<string> {
  const parts = source.split("/").filter((part) => part !== "" && part !== ".");
  yield* walk({ root: await realpath(folder), parts, seen: new Set() }, "", 0);
}

async function* walk(search: Search, path: string, index: number): AsyncGenerator<string> {
  const { root, parts, seen } = search;
  const key = `${index}:${path}`;
  if (seen.has(key)) return;
  seen.add(key);
  const part = parts[index];
  if (part === undefined) {
    yield path;
    return;
  }
  if (path !== "" && !(await isFolderInside(root, path))) return;
  if (!isPattern(part)) {
    const next = path === "" ? part : `${path}/${part}`;
    if (await isThere(join(root, next))) yield* walk(search, next, index + 1);
    return;
  }
  if (part === "**") yield* walk(search, path, index + 1);
  const fits = part === "**" ? undefined : toMatcher(withinPart(part));
  for (const entry of await readdir(join(root, path), { withFileTypes: true })) {
    const next = path === "" ? entry.name : `${path}/${entry.name}`;
    if (fits === undefined) {
      // Any number of folders, and no link.
      if (entry.isDirectory()) yield* walk(search, next, index);
    } else if (fits(entry.name)) yield* walk(search, next, index + 1);
  }
}

/** Within a part two stars mean no more than one. */
function withinPart(part: string): string {
  return part.replaceAll(/\\.|\*+/g, (found) => (found.startsWith("*") ? "*" : found));
}

async function isFolderInside(root: string, path: string): Promise<boolean> {
  const real = await realpath(join(root, path)).catch(() => undefined);
  if (real === undefined) return false;
  if (real !== root && !real.startsWith(root + sep)) {
    throw new SandboxError(
      "invalid_argument",
      `${quoteUntrusted(path)} leads out of the folder by a link`,
    );
  }
  return (await lstat(real)).isDirectory();
}

async function isThere(path: string): Promise<boolean> {
  return lstat(path).then(
    () => true,
    () => false,
  );
}
