/**
 * Packages of foreign clients, installed from their registries into one folder at run time, with
 * pinned versions. `CLIENTS_FOLDER=DIRECTORY` keeps and uses a folder of an earlier run.
 */

import { execFile } from "node:child_process";
import { cp, mkdir, writeFile } from "node:fs/promises";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { isThere } from "../../../src/common/files.ts";
import { makeTempFolder, type TempFolder } from "../temp-folder.ts";

const run = promisify(execFile);

/** A registry that is far away takes long, and a Go module is compiled on a busy machine. */
const INSTALL_LIMIT_MS = 900_000;
const MAX_OUTPUT_BYTES = 64 * 1024 * 1024;

/** The folder of one run, or the one that `CLIENTS_FOLDER` names, which stays. */
export async function openPackageFolder(): Promise<TempFolder> {
  const kept = process.env["CLIENTS_FOLDER"];
  if (kept === undefined) return makeTempFolder();
  await mkdir(kept, { recursive: true });
  return { path: resolve(kept), [Symbol.asyncDispose]: async () => undefined };
}

/** The interpreter of a virtual environment with these packages, as `name==version`. */
export async function installPython(place: string, packages: readonly string[]): Promise<string> {
  const python = join(place, "bin/python");
  await once(place, packages, async () => {
    await command("python3", ["-m", "venv", place]);
    const flags = ["--quiet", "--no-cache-dir", "--disable-pip-version-check"];
    await command(python, ["-m", "pip", "install", ...flags, ...packages]);
  });
  return python;
}

/** A directory with these packages in its `node_modules`, as `name@version`. */
export async function installNode(
  place: string,
  packages: readonly string[],
  scripts: "scripts" | "no scripts" = "no scripts",
): Promise<void> {
  await once(place, packages, async () => {
    await writeFile(join(place, "package.json"), '{"private":true}');
    const flags = ["--no-audit", "--no-fund", "--loglevel", "error"];
    const hold = scripts === "scripts" ? [] : ["--ignore-scripts"];
    const cache = ["--cache", join(place, "cache")];
    await command("npm", ["install", ...flags, ...hold, ...cache, ...packages], { cwd: place });
  });
}

/** The program of a Go source file that needs this module, as `path@version`. */
export async function buildGo(place: string, source: string, module: string): Promise<string> {
  const program = join(place, "program");
  // Go writes its modules read-only unless it is told otherwise.
  const env = {
    GOPATH: join(place, "path"),
    GOCACHE: join(place, "cache"),
    GOFLAGS: "-modcacherw -buildvcs=false",
  };
  await once(place, [module], async () => {
    await writeFile(join(place, "go.mod"), "module driver\n\ngo 1.25.0\n");
    await cp(source, join(place, "main.go"));
    await command("go", ["get", module], { cwd: place, env });
    await command("go", ["mod", "tidy"], { cwd: place, env });
  });
  await cp(source, join(place, "main.go"));
  await command("go", ["build", "-o", program, "."], { cwd: place, env });
  return program;
}

/** Installs unless the folder has exactly this. */
async function once(
  place: string,
  packages: readonly string[],
  install: () => Promise<void>,
): Promise<void> {
  const mark = join(place, `${packages.join(" ").replaceAll(/[^a-z0-9.]+/g, "-")}.done`);
  if (await isThere(mark)) return;
  await mkdir(place, { recursive: true });
  await install();
  await writeFile(mark, "");
}

async function command(
  program: string,
  words: readonly string[],
  { cwd, env }: { readonly cwd?: string; readonly env?: Readonly<Record<string, string>> } = {},
): Promise<void> {
  try {
    await run(program, words, {
      cwd: cwd ?? process.cwd(),
      env: { ...process.env, ...env },
      timeout: INSTALL_LIMIT_MS,
      maxBuffer: MAX_OUTPUT_BYTES,
    });
  } catch (error) {
    throw new Error(`${program} ${words.join(" ")} failed: ${String(error)}`, { cause: error });
  }
}
