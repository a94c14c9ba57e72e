/** Folders with their parents, in every file system. */

import { mkdirSync, statSync } from "node:fs";
import { dirname } from "node:path";
import { isCode } from "./errors.ts";

/**
 * Makes the folder and what is missing above it; one that is there stays as it is. Node's recursive
 * `mkdir` never returns where the kernel refuses a folder with ENOENT, as in /proc.
 * @throws NodeJS.ErrnoException
 */
export function makeFolders(path: string, mode: number): void {
  try {
    makeFolder(path, mode);
  } catch (error) {
    if (!isCode(error, "ENOENT") || dirname(path) === path) throw error;
    makeFolders(dirname(path), mode);
    makeFolder(path, mode);
  }
}

function makeFolder(path: string, mode: number): void {
  try {
    mkdirSync(path, { mode });
  } catch (error) {
    if (!isCode(error, "EEXIST") || !statSync(path).isDirectory()) throw error;
  }
}
