/** Images of memory in a home, what is in them, and where they are mounted. */

import { execFile } from "node:child_process";
import { readdir, readFile, stat } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import type { FaultHome } from "./fault-home.ts";

const run = promisify(execFile);

/** The files of all images of memory, whole or not. */
export async function imageFiles(home: FaultHome): Promise<string[]> {
  const sandboxes = join(home.path, "instances/serve/s");
  const ids = await readdir(sandboxes).catch(() => []);
  const folders = [join(home.path, "memory"), ...ids.map((id) => join(sandboxes, id, "saved"))];
  const found: string[] = [];
  for (const folder of folders) {
    const names = await readdir(folder, { recursive: true }).catch(() => []);
    for (const name of names) {
      const path = join(folder, name);
      if ((await stat(path)).isFile()) found.push(path);
    }
  }
  return found;
}

export async function filesWith(home: FaultHome, word: string): Promise<string[]> {
  const files = await imageFiles(home);
  const texts = await Promise.all(files.map(async (path) => readFile(path)));
  return files.filter((_path, index) => texts[index]?.includes(word));
}

/** File systems of images that some process of the machine still sees. */
export async function imageMounts(home: FaultHome): Promise<string> {
  const script =
    "cat /proc/[0-9]*/mountinfo 2>/dev/null | grep -c -e ' - fuse sandbox-mcp ' || true";
  const { stdout } = await run("sh", ["-c", script], { cwd: home.path });
  return stdout.trim();
}
