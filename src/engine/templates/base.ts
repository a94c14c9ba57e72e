/**
 * The `base` template: a Debian root file system of its own, made once by mmdebstrap. Where no mount
 * can show its files with a container's ids, their owners are moved instead.
 */

import { chmod, lchown, lstat, mkdir, opendir, readdir, rm } from "node:fs/promises";
import { dirname, join } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { readIfThere } from "../../common/files.ts";
import { sha256Hex } from "../../common/hash.ts";
import { isRootless, NAMESPACE_ID_BASE } from "../../common/privilege.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { quoteUntrusted } from "../../common/untrusted-text.ts";
import type { Layer } from "../engine.ts";
import { findProgram } from "../host/find-program.ts";
import { installCommand } from "../host/install-command.ts";
import { runProgram } from "../host/run-program.ts";
import { findRelease, readSystem } from "../host/system-release.ts";
import { makeLayer, TREES } from "../storage/layers.ts";
import { addNode } from "./node.ts";
import { runnableIn } from "./runnable.ts";
import { openLocal, readAccounts, redactSources, writeSetting, writeSettings } from "./settings.ts";

/** What every sandbox has besides the essential packages. */
const PACKAGES = [
  "bash",
  "bind9-dnsutils",
  "ca-certificates",
  "coreutils",
  "curl",
  "file",
  "findutils",
  "gcc",
  "git",
  "gnupg",
  "grep",
  "gzip",
  "jq",
  "less",
  "libc6-dev",
  "make",
  "openssh-client",
  "passwd",
  "procps",
  "python-is-python3",
  "python3",
  "python3-pip",
  "python3-venv",
  "ripgrep",
  "rsync",
  "sed",
  "sqlite3",
  "sudo",
  "tar",
  "tree",
  "unzip",
  "util-linux",
  "zip",
] as const;

/**
 * Of apt and dpkg, while the template is built and later inside: no translations, no manuals, and
 * no flush after each file, since a layer is synced as a whole and a sandbox is not kept.
 */
const OPTIONS = [
  '--aptopt=Acquire::Languages "none"',
  "--dpkgopt=path-exclude=/usr/share/man/*",
  "--dpkgopt=path-exclude=/usr/share/info/*",
  "--dpkgopt=path-exclude=/usr/share/doc/*",
  "--dpkgopt=path-include=/usr/share/doc/*/copyright",
  "--dpkgopt=path-exclude=/usr/share/locale/*",
  "--dpkgopt=path-include=/usr/share/locale/locale.alias",
  "--dpkgopt=force-unsafe-io",
] as const;

/** The sandbox is the environment of its own: pip needs no other one around it. */
const PIP_CONFIG = "[global]\nbreak-system-packages = true\n";

/** A change of what is written besides the packages. */
const LAYOUT = 4;

/** Names all of the above: a base that was built from another recipe is out of date. */
export const BASE_RECIPE: string = sha256Hex(
  JSON.stringify([LAYOUT, PACKAGES, OPTIONS, PIP_CONFIG]),
).slice(0, 8);

/** Where a Debian or a child of it says what its mirror is; the first one that is there counts. */
const SOURCES = [
  "/etc/apt/sources.list.d/debian.sources",
  "/etc/apt/sources.list.d/ubuntu.sources",
  "/etc/apt/sources.list",
] as const;

const BUILDER = "mmdebstrap";
/** In the draft of the layer, for what the builder leaves when it is killed or fails. */
const TEMPORARY = "temporary";

/** A slow mirror is slow; one that has sent nothing useful by then is down. */
export const BASE_BUILD_TIMEOUT_MS: number = 20 * 60_000;

export interface BuildOptions {
  /** Packages besides those of `base`. */
  readonly morePackages?: readonly string[];
  /** The folder of the layer; made by this call. */
  readonly directory: string;
  readonly signal: AbortSignal;
  /** Called with a line for people, a few times a minute at most. */
  onProgress?(message: string): void;
}

/** Why this machine cannot build it, and what to do about that. */
export interface BuildLack {
  readonly detail: string;
  readonly hint: string;
}

/** Undefined where a build can be tried. */
export function findBuildLack(
  system = readSystem(),
  find: typeof findProgram = findProgram,
): BuildLack | undefined {
  if (findRelease(system) === undefined) return NO_RELEASE;
  if (find(BUILDER) !== undefined) return undefined;
  return { detail: `${BUILDER} is missing`, hint: installCommand() };
}

/** No package of another system helps. */
const NO_RELEASE: BuildLack = {
  detail: "this system names no Debian release",
  hint: "use the template host, which root has, or a service on a Debian or Ubuntu system",
};

/**
 * Builds the base layer from the mirror that this system itself uses; takes about a minute.
 * @throws SandboxError unavailable when this machine lacks something for it or it fails, already_exists,
 * canceled
 */
export async function buildBase(options: BuildOptions): Promise<readonly Layer[]> {
  const system = readSystem();
  const lack = findBuildLack(system);
  if (lack !== undefined) throw new SandboxError("unavailable", lack.detail, { hint: lack.hint });
  const release = findRelease(system) ?? "";
  const sources = await findSources();
  const fill = async (draft: string) => {
    const root = join(draft, TREES.root);
    const temporary = join(draft, TEMPORARY);
    await mkdir(temporary, { mode: 0o700 });
    await bootstrap({ root, temporary, release, sources, options });
    await removeTree(temporary);
    await settle(root);
    await addNode(root, options);
    await openLocal(join(root, "usr/local"));
    if (isRootless()) await shiftIds(root, NAMESPACE_ID_BASE);
  };
  return [await makeLayer(options.directory, fill, options.signal)];
}

async function findSources(): Promise<string | undefined> {
  for (const path of SOURCES) {
    if (/^\s*(deb|URIs:)\s/m.test((await readIfThere(path)) ?? "")) return path;
  }
  return undefined;
}

async function bootstrap(build: {
  readonly root: string;
  readonly temporary: string;
  readonly release: string;
  readonly sources: string | undefined;
  readonly options: BuildOptions;
}): Promise<void> {
  const { root, temporary, release, sources, options } = build;
  await runProgram(
    [
      // Its mounts and all that it started end with it, even when it is killed: what is left of a
      // draft can be removed then.
      "unshare",
      "--mount",
      "--propagation",
      "private",
      "--pid",
      "--fork",
      "--kill-child",
      "--mount-proc",
      ...runnableIn(dirname(root)),
      "env",
      `TMPDIR=${temporary}`,
      BUILDER,
      "--mode=root",
      "--variant=minbase",
      "--format=directory",
      ...OPTIONS,
      `--include=${[...PACKAGES, ...(options.morePackages ?? [])].join(",")}`,
      release,
      root,
      ...(sources === undefined ? [] : [sources]),
    ],
    {
      timeoutMs: BASE_BUILD_TIMEOUT_MS,
      signal: options.signal,
      onLine: (line) => {
        const step = /^I: (.*)$/.exec(line)?.[1];
        if (step !== undefined) options.onProgress?.(quoteUntrusted(step));
      },
    },
  );
}

async function settle(root: string): Promise<void> {
  await writeSettings(root, await readAccounts(root));
  await redactSources(root);
  await writeSetting(join(root, "etc/pip.conf"), PIP_CONFIG);
  // A sandbox gets its own device folder; nodes in a layer have no use.
  const devices = join(root, "dev");
  for (const name of await readdir(devices)) {
    await rm(join(devices, name), { recursive: true, force: true });
  }
  await mkdir(join(root, "run"), { recursive: true });
}

/** Giving a file away takes these from it. */
const SET_ID_BITS = 0o6000;
const MODE_BITS = 0o7777;

/** Adds `by` to the user and group of everything in a tree that nothing else changes meanwhile. */
export async function shiftIds(root: string, by: number): Promise<void> {
  const seen = new Set<bigint>();
  const folders = [root];
  await shiftEntry(root, by, seen);
  for (let folder = folders.pop(); folder !== undefined; folder = folders.pop()) {
    for await (const entry of await opendir(folder)) {
      const path = join(folder, entry.name);
      await shiftEntry(path, by, seen);
      if (entry.isDirectory()) folders.push(path);
    }
  }
}

/** A file with several names is moved once. */
async function shiftEntry(path: string, by: number, seen: Set<bigint>): Promise<void> {
  const entry = await lstat(path, { bigint: true });
  if (seen.has(entry.ino)) return;
  if (entry.nlink > 1n && !entry.isDirectory()) seen.add(entry.ino);
  await lchown(path, Number(entry.uid) + by, Number(entry.gid) + by);
  const mode = Number(entry.mode) & MODE_BITS;
  if ((mode & SET_ID_BITS) !== 0 && !entry.isSymbolicLink()) await chmod(path, mode);
}
