/** A home of its own for one test, with the base template of the machine's home in it. */

import { execFile } from "node:child_process";
import { mkdir, mkdtemp, rm, symlink } from "node:fs/promises";
import { tmpdir } from "node:os";
import { basename, dirname, join } from "node:path";
import { promisify } from "node:util";
import { baseLayers } from "./base-layer.ts";
import { shareServiceDaemon } from "./engine/shared-daemon.ts";

const run = promisify(execFile);

export interface TestHome extends AsyncDisposable {
  readonly path: string;
}

/** As a long account name makes it: no address of a unix socket holds what lies below it. */
export const DEEP_FOLDER = `.local/share/${"long name, ".repeat(12)}für 'it'`;

/**
 * Makes the home with the base template in it, in a folder below if one is named: a link to that of
 * the machine, of which every use is read-only, unless the base is a copy.
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
  if (base === "copied") await run("cp", ["-a", source, target]);
  else await symlink(source, target);
  await shareServiceDaemon(path);
  return {
    path,
    async [Symbol.asyncDispose]() {
      await removeHome(folder);
    },
  };
}

/** An ordinary user's sandboxes leave files of the user's subordinate ids, for root of their namespace. */
async function removeHome(folder: string): Promise<void> {
  if (process.getuid?.() === 0) return rm(folder, { recursive: true, force: true });
  await run("unshare", ["--map-root-user", "--map-auto", "rm", "-rf", "--", folder]);
}
