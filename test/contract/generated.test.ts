/** Generated code is what the protocol files say, byte for byte. */

import { execFile } from "node:child_process";
import { mkdtemp, readFile, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, relative, resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";

const ROOT = resolve(import.meta.dirname, "../..");
const BIN = join(ROOT, "node_modules/.bin");

async function readTree(folder: string): Promise<Record<string, string>> {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  const files = entries.filter((entry) => entry.isFile());
  const pairs = files.map(async (entry) => {
    const path = join(entry.parentPath, entry.name);
    return [relative(folder, path), await readFile(path, "utf8")] as const;
  });
  return Object.fromEntries(await Promise.all(pairs));
}

test("src/gen equals a fresh generation", async () => {
  const temp = await mkdtemp(join(tmpdir(), "sandbox-mcp-gen-"));
  try {
    await promisify(execFile)(join(BIN, "buf"), ["generate", "-o", join(temp, "proto")], {
      cwd: join(ROOT, "proto"),
      env: { PATH: `${BIN}:/usr/bin:/bin`, HOME: temp },
    });
    // buf resolves the plugin's `../src/gen` below the folder that it is given.
    const fresh = await readTree(join(temp, "src/gen"));
    const committed = await readTree(join(ROOT, "src/gen"));
    expect(Object.keys(committed).toSorted()).toEqual([
      "filesystem/filesystem_pb.ts",
      "process/process_pb.ts",
    ]);
    expect(fresh).toEqual(committed);
  } finally {
    await rm(temp, { recursive: true, force: true });
  }
});
