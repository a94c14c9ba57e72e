/** The version of a database as its file says, without opening it: SQLite makes other files beside it. */

import { closeSync, openSync, readSync } from "node:fs";
import { isCode, SandboxError } from "../common/errors.ts";
import { LOG_STEPS, STATE_STEPS } from "./schema.sql.ts";

/** @see https://sqlite.org/fileformat.html#the_database_header */
const HEADER_BYTES = 64;
const MAGIC = "SQLite format 3\0";
const VERSION_OFFSET = 60;

/** The log of the database at this path. */
export function logPathOf(path: string): string {
  return `${path}-logs`;
}

export function newerVersionError(path: string, version: number): SandboxError {
  return new SandboxError("failed_precondition", `database ${path} has version ${version}`, {
    hint: "a newer sandbox-mcp has written it: use that one, or another --home",
  });
}

/** Whether an older program has written a file of the database, which is to be upgraded. */
export function isOlderStore(path: string): boolean {
  return filesOf(path).some(({ file, known }) => isOlderFile(file, known));
}

/** Whether a file says that it is of a version below this one; not one that is absent or empty. */
export function isOlderFile(file: string, known: number): boolean {
  const version = readVersion(file);
  return version > 0 && version < known;
}

/**
 * Refuses a database that a newer program has written, before anything beside it is changed. One that
 * is still in its write-ahead log is found when it is opened.
 * @throws SandboxError failed_precondition
 */
export function refuseNewerFile(path: string): void {
  for (const { file, known } of filesOf(path)) {
    const version = readVersion(file);
    if (version > known) throw newerVersionError(file, version);
  }
}

function filesOf(path: string) {
  return [
    { file: path, known: STATE_STEPS.length },
    { file: logPathOf(path), known: LOG_STEPS.length },
  ];
}

/** 0 for a file that is none, or that cannot be read: that shows when it is opened. */
function readVersion(path: string): number {
  const header = Buffer.alloc(HEADER_BYTES);
  try {
    const file = openSync(path, "r");
    try {
      readSync(file, header, 0, HEADER_BYTES, 0);
    } finally {
      closeSync(file);
    }
  } catch (error) {
    if (isCode(error, "ENOENT", "EACCES", "EISDIR", "EIO", "ENOTDIR", "ELOOP")) return 0;
    throw error;
  }
  return header.toString("latin1", 0, MAGIC.length) === MAGIC
    ? header.readUInt32BE(VERSION_OFFSET)
    : 0;
}
