/** Programs that only tests need; `scripts/setup.sh` unpacks their packages beside the npm packages. */

import { access, readdir } from "node:fs/promises";
import { join, resolve } from "node:path";

const UNPACKED = resolve(import.meta.dirname, "../../node_modules/.cache/test-tools");

const PLACES = {
  busybox: ["bin/busybox", "usr/bin/busybox"],
  "docker-registry": ["usr/bin/docker-registry"],
} as const;

export type TestTool = keyof typeof PLACES | "ld-musl";

/** The path of a program. @throws Error that names the command which brings it */
export async function findTestTool(name: TestTool): Promise<string> {
  for (const root of [UNPACKED, "/"]) {
    const paths = name === "ld-musl" ? await muslPaths(root) : PLACES[name];
    for (const path of paths) {
      const found = join(root, path);
      if (
        await access(found).then(
          () => true,
          () => false,
        )
      )
        return found;
    }
  }
  throw new Error(`no ${name}: run scripts/setup.sh on a system with apt-get`);
}

async function muslPaths(root: string): Promise<string[]> {
  const names = await readdir(join(root, "lib")).catch(() => []);
  return names.filter((name) => name.startsWith("ld-musl-")).map((name) => join("lib", name));
}
