/** What the listing of a directory means for a tree that knows the directory from before or not. */

import { getSystemErrorName } from "node:util";
import { SandboxError } from "../../common/errors.ts";
import { EventType } from "../../gen/filesystem/filesystem_pb.ts";
import { isStagedName } from "../files/staging.ts";
import { Directory } from "./directory.ts";
import type { ListedEntry, WatchReport } from "./listing.ts";
import type { Tree } from "./tree.ts";

/** A directory may be gone, replaced, closed to us or too deep by the time we come to it. */
const SKIPPED: ReadonlySet<string> = new Set(
  "ENOENT ENOTDIR EACCES EPERM ELOOP ENAMETOOLONG ESTALE".split(" "),
);
/** What the kernel answers when a user has all the watches that one may have. */
const EXHAUSTED: ReadonlySet<string> = new Set(["ENOSPC", "EMFILE", "ENFILE", "ENOMEM"]);

/**
 * Takes in a directory whose path led to it while it was watched and listed. Files that changed
 * since the second `lostSinceS` are told as written: their events may be lost.
 * @throws SandboxError resource_exhausted, or a system error where the root cannot be watched
 */
export function applyListing(
  tree: Tree,
  directory: Directory,
  { report, lostSinceS }: { readonly report: WatchReport; readonly lostSinceS: number | undefined },
): void {
  tree.pending.delete(directory);
  if (report.errno !== 0) {
    tree.releaseUnknown(report.wd);
    if (!isSkipped(report.errno) || directory === tree.root) throw faultOf(tree, report.errno);
    return;
  }
  tree.watch(directory, report.wd);
  const entries = report.entries.filter(({ name }) => !isStagedName(name));
  const names = new Set(entries.map(({ name }) => name));
  for (const name of directory.children.keys()) {
    if (names.has(name)) continue;
    tree.forget(directory, name);
    tree.tell(directory, name, EventType.REMOVE);
  }
  for (const entry of entries) applyEntry(tree, directory, { entry, lostSinceS });
  directory.isReported = true;
}

function applyEntry(
  tree: Tree,
  directory: Directory,
  { entry, lostSinceS }: { readonly entry: ListedEntry; readonly lostSinceS: number | undefined },
): void {
  const { name } = entry;
  const isEntered = entry.isDirectory && tree.isRecursive;
  const known = directory.children.get(name);
  if (known !== undefined && known instanceof Directory === isEntered) {
    const isRecent = lostSinceS !== undefined && entry.changedAtS >= lostSinceS;
    if (isRecent && entry.hasContent) tree.tell(directory, name, EventType.WRITE);
    return;
  }
  if (known !== undefined) tree.tell(directory, name, EventType.REMOVE);
  const child = isEntered ? new Directory(directory, name, directory.isReported) : null;
  tree.enter(directory, name, child);
  directory.unconfirmed.add(name);
  if (!directory.isReported) return;
  tree.tell(directory, name, EventType.CREATE);
  if (entry.hasContent) tree.tell(directory, name, EventType.WRITE);
}

function isSkipped(errno: number): boolean {
  return SKIPPED.has(getSystemErrorName(-errno));
}

function faultOf(tree: Tree, errno: number): Error {
  const code = getSystemErrorName(-errno);
  if (code === "E2BIG") return tree.budget.exceeded("entries");
  if (!EXHAUSTED.has(code)) return Object.assign(new Error(code), { code });
  return new SandboxError("resource_exhausted", "the system's limit of inotify watches is reached");
}
