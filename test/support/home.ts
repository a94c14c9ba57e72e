/** A home of its own for one test, with the base template of the machine's home in it. */

import { execFile } from "node:child_process";
import { mkdtemp, mkdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { baseLayers } from "./base-layer.ts";

export interface TestHome extends AsyncDisposable {
  readonly path: string;
}

/** Makes the home; the base template is hard-linked, which its read-only use allows. */
export async function openTestHome(): Promise<TestHome> {
  const path = await mkdtemp(join(tmpdir(), "smcp-"));
  const [layer] = await baseLayers();
  const base = dirname(layer?.root ?? "");
  await mkdir(join(path, "layers"));
  await promisify(execFile)("cp", ["-al", base, join(path, "layers", basename(base))]);
  return {
    path,
    async [Symbol.asyncDispose]() {
      await rm(path, { recursive: true, force: true });
    },
  };
}
