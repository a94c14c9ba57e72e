/** A home of its own for one test, with the base template of the machine's home in it. */

import { execFile } from "node:child_process";
import { mkdtemp, mkdir, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";

/** Where set-up builds the base template: the default home of root. */
const MACHINE_HOME = "/var/lib/sandbox-mcp";

export interface TestHome extends AsyncDisposable {
  readonly path: string;
}

/** Makes the home; the base template is hard-linked, which its read-only use allows. */
export async function openTestHome(): Promise<TestHome> {
  const path = await mkdtemp(join(tmpdir(), "smcp-"));
  const layers = join(MACHINE_HOME, "layers");
  const base = (await readdir(layers)).toSorted().findLast((name) => name.startsWith("base-"));
  if (base === undefined) throw new Error("no base template: run scripts/setup.sh");
  await mkdir(join(path, "layers"));
  await promisify(execFile)("cp", ["-al", join(layers, base), join(path, "layers", base)]);
  return {
    path,
    async [Symbol.asyncDispose]() {
      await rm(path, { recursive: true, force: true });
    },
  };
}
