/**
 * Node and npm of the template `base`: those of this machine, which a package mirror has in older
 * versions or not at all. What does not run in the template is left out of it.
 */

import { copyFile, chmod, readFile, realpath, rm, symlink } from "node:fs/promises";
import { dirname, join } from "node:path";
import { errorText } from "../../common/errors.ts";
import { findProgram } from "../host/find-program.ts";
import { runProgram } from "../host/run-program.ts";
import { runnableIn } from "./runnable.ts";
import { makeFolder } from "./settings.ts";

const NODE = "usr/local/bin/node";
const MODULES = "usr/local/lib/node_modules";
const NPM = `${MODULES}/npm`;
/** Parts of npm for people, and settings of this machine. */
const LEFT_OUT = ["docs", "man", "npmrc"] as const;
const COPY_TIMEOUT_MS = 120_000;
/** To what root leaves in `/tmp` no user could add: npm would be compiled at each of its starts. */
const NO_CACHE = "NODE_DISABLE_COMPILE_CACHE=1";

interface NodeOptions {
  readonly signal: AbortSignal;
  onProgress?(message: string): void;
}

/** Puts both into the tree. */
export async function addNode(root: string, options: NodeOptions): Promise<void> {
  try {
    await copyNode(root);
    await copyNpm(root, options.signal);
  } catch (error) {
    options.signal.throwIfAborted();
    options.onProgress?.(`base has no node or no npm: ${errorText(error)}`);
  }
}

async function copyNode(root: string): Promise<void> {
  const target = join(root, NODE);
  await rm(target, { force: true });
  await copyFile(process.execPath, target);
  await chmod(target, 0o755);
  try {
    await runInside(root, [`/${NODE}`, "--version"]);
  } catch (error) {
    await rm(target);
    throw error;
  }
}

async function copyNpm(root: string, signal: AbortSignal): Promise<void> {
  const source = await findNpm();
  if (source === undefined) throw new Error("no npm on this machine");
  const target = join(root, NPM);
  for (const folder of [join(root, "usr/local/lib"), join(root, MODULES)]) {
    await makeFolder(folder, 0o755);
  }
  try {
    const copy = ["cp", "--recursive", "--preserve=links,timestamps", source, target] as const;
    await runProgram(copy, { timeoutMs: COPY_TIMEOUT_MS, signal });
    for (const name of LEFT_OUT) await rm(join(target, name), { recursive: true, force: true });
    await runProgram(["chmod", "-R", "u=rwX,go=rX", target], { timeoutMs: COPY_TIMEOUT_MS });
    await runInside(root, ["env", NO_CACHE, `/${NODE}`, `/${NPM}/bin/npm-cli.js`, "--version"]);
  } catch (error) {
    await rm(target, { recursive: true, force: true });
    throw error;
  }
  for (const name of ["npm", "npx"]) {
    const script = join(target, "bin", `${name}-cli.js`);
    await chmod(script, 0o755);
    await symlink(`../lib/node_modules/npm/bin/${name}-cli.js`, join(root, "usr/local/bin", name));
  }
}

async function runInside(root: string, command: readonly string[]): Promise<void> {
  const own = ["unshare", "--mount", "--propagation", "private"] as const;
  await runProgram([...own, ...runnableIn(root), "chroot", root, ...command]);
}

/** The folder of npm: the one that came with this node, else that of the program on the path. */
async function findNpm(): Promise<string | undefined> {
  const prefix = dirname(dirname(process.execPath));
  const program = findProgram("npm");
  const found = [
    join(prefix, "lib/node_modules/npm"),
    ...(program === undefined ? [] : [dirname(dirname(await realpath(program)))]),
  ];
  for (const folder of found) {
    if (await isNpm(folder)) return folder;
  }
  return undefined;
}

async function isNpm(folder: string): Promise<boolean> {
  try {
    const facts: unknown = JSON.parse(await readFile(join(folder, "package.json"), "utf8"));
    return typeof facts === "object" && facts !== null && "name" in facts && facts.name === "npm";
  } catch {
    // Not there, or nothing that can be read: it is looked for elsewhere.
    return false;
  }
}
