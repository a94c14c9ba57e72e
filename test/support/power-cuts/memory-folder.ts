/** A folder in memory: no flush of its files waits for the disk of the machine. */

import { execFile } from "node:child_process";
import { mkdtemp, rmdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { TempFolder } from "../temp-folder.ts";

const run = promisify(execFile);
/** A run of 400 cuts takes 314 MiB. */
const LIMIT = "size=8g";

export async function openMemoryFolder(): Promise<TempFolder> {
  const path = await mkdtemp(join(tmpdir(), "smcp-m-"));
  await run("mount", ["-t", "tmpfs", "-o", LIMIT, "smcp-memory", path]);
  return {
    path,
    async [Symbol.asyncDispose]() {
      // Other mount namespaces may have the disk in it for a moment longer.
      await run("umount", ["-l", path]);
      await rmdir(path);
    },
  };
}
