/** The public clients as the registries have them today, in directories of their own, kept between runs. */

import { execFile } from "node:child_process";
import { mkdtemp, rename, rm } from "node:fs/promises";
import { tmpdir, userInfo } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { isThere } from "../../../src/common/files.ts";

const run = promisify(execFile);

/** A registry that is far away takes long; one that is not there fails at once. */
const LIMIT_MS = 120_000;
const VERSION_PATTERN = /^\d+\.\d+\.\d+$/;

/** The newest version of the npm package. */
export async function newestNpm(): Promise<string> {
  const { stdout } = await run("npm", ["view", "e2b", "version"], { timeout: LIMIT_MS });
  return requireVersion(stdout);
}

/** The newest version of the package for Python. */
export async function newestPython(): Promise<string> {
  const words = ["-m", "pip", "index", "versions", "e2b", "--disable-pip-version-check"];
  const { stdout } = await run("python3", words, { timeout: LIMIT_MS });
  return requireVersion(/^e2b \(([^)]*)\)/m.exec(stdout)?.[1] ?? "");
}

/** What a registry says becomes part of a path and of a command. */
function requireVersion(text: string): string {
  const version = text.trim();
  if (VERSION_PATTERN.test(version)) return version;
  throw new Error(`no version: ${JSON.stringify(version.slice(0, 100))}`);
}

/** The directory of the npm package in this version. */
export async function installNpm(version: string): Promise<string> {
  const place = join(tmpdir(), `sandbox-mcp-npm-${userInfo().uid}-${version}`);
  const directory = join(place, "node_modules/e2b");
  if (await isThere(directory)) return directory;
  const draft = await mkdtemp(`${place}-`);
  try {
    const words = ["install", "--no-audit", "--no-fund", "--ignore-scripts", "--prefix", draft];
    await run("npm", [...words, `e2b@${version}`], { timeout: LIMIT_MS });
    await rename(draft, place);
  } catch (error) {
    if (!(await isThere(directory))) throw error;
  } finally {
    await rm(draft, { recursive: true, force: true });
  }
  return directory;
}
