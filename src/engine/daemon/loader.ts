/** The daemon's copy of the dynamic loader, which must not load what a sandbox names. */

import { readFile, writeFile } from "node:fs/promises";

/** A file of libraries that glibc loads into every program, whatever its arguments. */
const PRELOAD_FILE = "/etc/ld.so.preload";

/**
 * Writes a loader that looks for its list of preloaded libraries in a directory that no sandbox can
 * write to, where there is none: root inside could have the daemon load code of its own by the file
 * in `/etc` and a signal. glibc has no option for it, so the path in the copy is replaced.
 * @param directory where the loader is seen in a sandbox; shorter than that path.
 */
export async function copyLoader(source: string, target: string, directory: string): Promise<void> {
  const bytes = await readFile(source);
  const path = Buffer.from(`${directory}/`.padEnd(PRELOAD_FILE.length, "-"), "latin1");
  if (path.length !== PRELOAD_FILE.length) throw new RangeError(`${directory} is too long`);
  for (let at = bytes.indexOf(PRELOAD_FILE); at !== -1; at = bytes.indexOf(PRELOAD_FILE, at)) {
    bytes.set(path, at);
  }
  await writeFile(target, bytes, { mode: 0o755 });
}
