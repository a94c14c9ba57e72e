/** A home of its own for one test, with the base template of the machine's home in it. */

import { execFile } from "node:child_process";
import { link, mkdtemp, mkdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { causeCode } from "../../src/common/errors.ts";
import { baseLayers } from "./base-layer.ts";

const run = promisify(execFile);

export interface TestHome extends AsyncDisposable {
  readonly path: string;
}

/** As a long account name makes it: no address of a unix socket holds what lies below it. */
export const DEEP_FOLDER = `.local/share/${"long name, ".repeat(12)}für 'it'`;

/**
 * Makes the home with the base template in it, in a folder below if one is named. Other homes come
 * and go with links to the same files, which changes their times, unless the base is a copy.
 */
export async function openTestHome(
  below = "",
  base: "linked" | "copied" = "linked",
): Promise<TestHome> {
  const folder = await mkdtemp(join(tmpdir(), "smcp-"));
  const path = join(folder, below);
  const [layer] = await baseLayers();
  const source = dirname(layer?.root ?? "");
  const target = join(path, "layers", basename(source));
  await mkdir(dirname(target), { recursive: true });
  await (base === "copied" ? copyTree(source, target) : shareTree(source, target));
  return {
    path,
    async [Symbol.asyncDispose]() {
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Hard links do where they can, which the read-only use of a layer allows. */
async function shareTree(source: string, target: string): Promise<void> {
  try {
    // Two folders on one file system can still be two mounts: one file tells.
    const probe = `${target}.probe`;
    await link(join(source, "root/etc/passwd"), probe);
    await rm(probe);
    await run("cp", ["-al", source, target]);
  } catch (error) {
    if (causeCode(error) !== "EXDEV") throw error;
    await copyTree(source, target);
  }
}

async function copyTree(source: string, target: string): Promise<void> {
  await run("cp", ["-a", source, target]);
}
