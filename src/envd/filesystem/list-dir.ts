/** ListDir: the entries below a folder, depth first, in the byte order of their names. */

import type { Stats } from "node:fs";
import type { HandlerContext } from "@connectrpc/connect";
import { causeCode, isCode, SandboxError } from "../../common/errors.ts";
import { fromSystemBytes, toSystemBytes } from "../../common/file-names.ts";
import { FileType, type ListDirRequest } from "../../gen/filesystem/filesystem_pb.ts";
import { originOf, pathFor, userOf } from "../call.ts";
import type { Daemon } from "../daemon.ts";
import { errnoText, fileErrorText } from "../errno.ts";
import { readNames, realpath, stat } from "../file-system.ts";
import { isStagedName, type Staging } from "../files/staging.ts";
import { tidyPath } from "../parent-path.ts";
import { joinPath } from "../path.ts";
import type { Accounts } from "../user.ts";
import { readEntry, type Entry } from "./entry.ts";

/** A listing of this many entries is about 6 MB of JSON, and its reading takes about a second. */
const MAX_ENTRIES = 20_000;
/** Of their paths, names and links together, in characters: no reply holds more. */
const MAX_CHARACTERS = 16_777_216;
/** So many entries are read at once; more would only queue for the file system's threads. */
const READ_BATCH = 64;
/** A vanished or replaced entry is skipped; every other failure is told. */
const VANISHED: ReadonlySet<string> = new Set(["ENOENT", "ENOTDIR"]);

/** @throws SandboxError not_found, invalid_argument, failed_precondition, resource_exhausted */
export async function listDir(
  request: ListDirRequest,
  context: HandlerContext,
): Promise<{ entries: Entry[] }> {
  const origin = originOf(context);
  const path = await pathFor(origin.daemon, await userOf(origin), request.path);
  await requireDirectory(path);
  const { listings } = origin.daemon;
  return listings.run(async () => {
    context.signal.throwIfAborted();
    return list({ path, depth: Math.max(request.depth, 1) }, origin.daemon, context.signal);
  });
}

async function list(
  { path, depth }: { readonly path: string; readonly depth: number },
  { accounts, attributes, staging }: Daemon,
  signal: AbortSignal,
): Promise<{ entries: Entry[] }> {
  const listing: Listing = {
    entries: [],
    paths: [],
    names: 0,
    characters: 0,
    accounts: await accounts.read(),
    signal,
    staging,
  };
  await collect(listing, await tidyPath(path), depth);
  // All at once: one question for the whole listing, however many files have none.
  const metadata = await attributes.read(listing.paths);
  return {
    entries: listing.entries.map((entry, index) => ({ ...entry, metadata: metadata[index] ?? {} })),
  };
}

interface Listing {
  readonly entries: Entry[];
  /** Of the entries, one by one. */
  readonly paths: string[];
  /** What was read so far, whether or not it is among the entries yet. */
  names: number;
  characters: number;
  readonly accounts: Accounts;
  readonly signal: AbortSignal;
  readonly staging: Staging;
}

async function requireDirectory(path: string): Promise<void> {
  let stats: Stats;
  try {
    stats = await stat(await realpath(path));
  } catch (error) {
    throw resolveFault(path, error);
  }
  if (!stats.isDirectory()) {
    throw new SandboxError("invalid_argument", `path is not a directory: ${path}`);
  }
}

function resolveFault(path: string, error: unknown): SandboxError {
  const code = causeCode(error);
  if (code === "ENOENT") {
    const text = fileErrorText("lstat", path, error);
    return new SandboxError("not_found", `path not found: ${text}`, { cause: error });
  }
  if (code === "ELOOP") {
    const message = `cyclic symlink or chain >255 links at "${path}"`;
    return new SandboxError("failed_precondition", message, { cause: error });
  }
  const text = fileErrorText("lstat", path, error);
  return new SandboxError("internal", `error resolving symlink: ${text}`, { cause: error });
}

async function collect(listing: Listing, directory: string, depth: number): Promise<void> {
  const names = await namesIn(listing, directory);
  for (let start = 0; start < names.length; start += READ_BATCH) {
    listing.signal.throwIfAborted();
    const batch = names.slice(start, start + READ_BATCH);
    const paths = batch.map((name) => joinPath(directory, name));
    const entries = await Promise.all(paths.map(async (path) => entryIfThere(path, listing)));
    for (const [index, path] of paths.entries()) {
      const entry = entries[index];
      if (entry === undefined) listing.names -= 1;
      else await append(listing, { path, entry }, depth);
    }
  }
}

async function append(
  listing: Listing,
  { path, entry }: { readonly path: string; readonly entry: Entry },
  depth: number,
): Promise<void> {
  count(listing, entry.symlinkTarget?.length ?? 0);
  listing.entries.push(entry);
  listing.paths.push(path);
  const isFolder = entry.type === FileType.DIRECTORY && entry.symlinkTarget === undefined;
  if (depth <= 1 || !isFolder) return;
  try {
    await collect(listing, path, depth - 1);
  } catch (error) {
    if (!(error instanceof SandboxError) || !isCode(error.cause, ...VANISHED)) throw error;
    // The folder went away between its listing and its reading.
  }
}

/** The names in a folder, sorted by their bytes; read piece by piece, so that a limit holds. */
async function namesIn(listing: Listing, directory: string): Promise<string[]> {
  const names: string[] = [];
  try {
    for await (const name of readNames(directory)) {
      if (isStagedName(name)) {
        await listing.staging.sweep(joinPath(directory, name));
        continue;
      }
      listing.names += 1;
      if (listing.names > MAX_ENTRIES) throw tooMany(`${MAX_ENTRIES} entries`);
      count(listing, directory.length + 1 + 2 * name.length);
      names.push(name);
    }
  } catch (error) {
    if (error instanceof SandboxError) throw error;
    const text = `error reading directory ${directory}: ${errnoText(error)}`;
    throw new SandboxError("internal", text, { cause: error });
  }
  return sortByBytes(names);
}

function sortByBytes(names: readonly string[]): string[] {
  return names
    .map((name) => toSystemBytes(name))
    .toSorted((left, right) => Buffer.compare(left, right))
    .map((bytes) => fromSystemBytes(bytes));
}

async function entryIfThere(path: string, listing: Listing): Promise<Entry | undefined> {
  try {
    return await readEntry(path, listing.accounts);
  } catch (error) {
    if (isCode(error, ...VANISHED)) return undefined;
    throw new SandboxError("internal", fileErrorText("lstat", path, error), { cause: error });
  }
}

function count(listing: Listing, characters: number): void {
  listing.characters += characters;
  if (listing.characters > MAX_CHARACTERS) throw tooMany(`${MAX_CHARACTERS} characters of paths`);
}

function tooMany(limit: string): SandboxError {
  return new SandboxError("resource_exhausted", `more than ${limit}`, {
    hint: "List with a smaller depth, or a folder further down.",
  });
}
