/** What the build puts in the place of the platform's own, for the RPC library. */

import { readdir, readFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { expect, test } from "vitest";

const DIST = resolve(import.meta.dirname, "../../dist");

async function filesWith(pattern: RegExp): Promise<string[]> {
  const found: string[] = [];
  for (const name of await readdir(DIST)) {
    if (!/\.[cm]?js$/.test(name)) continue;
    if (pattern.test(await readFile(join(DIST, name), "utf8"))) found.push(name);
  }
  return found;
}

test("base64 is done by Buffer in every program that has the library", async () => {
  expect(await filesWith(/Uint8Array\.prototype\.(?:to|setFrom)Base64/)).toEqual([]);
  // The server and the daemon.
  expect(await filesWith(/SyntaxError\(["`]invalid base64/)).toHaveLength(2);
});

test("the daemon has headers of its own, so that nothing loads all of fetch", async () => {
  const daemon = await readFile(join(DIST, "envd.cjs"), "utf8");
  expect(daemon).toContain("getSetCookie(){");
  expect(daemon.match(/(?<![\w$.])Headers\(/g)).toBeNull();
});
