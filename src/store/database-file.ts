/**
 * The file below an open database. SQLite goes on with a file that was removed, renamed or replaced:
 * what it writes then is acknowledged, and no later process finds it.
 */

import { statSync, type BigIntStats } from "node:fs";
import type { DatabaseSync } from "node:sqlite";
import { SandboxError } from "../common/errors.ts";

interface OpenFile {
  readonly path: string;
  readonly identity: string | undefined;
}

const files = new WeakMap<DatabaseSync, OpenFile>();

/** The database was just opened at this path. */
export function watchFile(database: DatabaseSync, path: string): void {
  files.set(database, { path, identity: identityOf(path) });
}

/** @throws SandboxError unavailable when the path leads to another file by now, or to none. */
export function requireOpenFile(database: DatabaseSync): void {
  const file = files.get(database);
  if (file === undefined || identityOf(file.path) === file.identity) return;
  throw new SandboxError("unavailable", "the database of the home was removed or replaced", {
    hint: "put the home back as it was, or restart the service",
  });
}

function identityOf(path: string): string | undefined {
  let entry: BigIntStats | undefined;
  try {
    entry = statSync(path, { bigint: true, throwIfNoEntry: false });
  } catch {
    // A folder on the way that cannot be searched, or is a file by now.
  }
  return entry && `${entry.dev} ${entry.ino}`;
}
