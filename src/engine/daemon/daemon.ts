/**
 * The daemon's own files: node, a shell, perl, their loader and libraries and the bundle, copied once
 * into a folder that every container mounts read-only. Nothing of it comes from a template.
 */

import { createHash, randomBytes } from "node:crypto";
import { constants, readdirSync, readFileSync, realpathSync, statSync } from "node:fs";
import { chmod, chown, copyFile, mkdir, readFile, rename, rm, writeFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import type { TellFailure } from "../../common/clean-up.ts";
import { errorText, SandboxError } from "../../common/errors.ts";
import { draftOf } from "../../common/files.ts";
import { step } from "../../common/steps.ts";
import { createOnce, discardFolder, removeDeadDrafts, removeDrafts } from "../host/drafts.ts";
import { runProgram } from "../host/run-program.ts";
import { DAEMONS } from "../storage/prune.ts";
import { DAEMON_FILES, writeCompileCache, type WarmUp } from "./compile-cache.ts";
import { DAEMON_DIRECTORY, nodeFlags, OPENSSL_CONFIG } from "./daemon-command.ts";
import { isIntact, listFiles, writeManifest } from "./manifest.ts";

/** The subdirectory of the code interpreter. */
const INTERPRETER = "interpreter";
/**
 * What the daemon runs by its own perl, what these load from beside them, and the program of the
 * host that knows the daemon's frames.
 */
const DAEMON_PERL_FILES = [
  "abilities.pl",
  "attributes.pl",
  "execute.pl",
  "inotify.pl",
  "listen-inside.pl",
  "sentry-links.pl",
  "sentry-relay.pl",
  "spawner.pl",
  "terminal.pl",
  "syscalls.pl",
] as const;
const prepareOnce = createOnce<string>();

export interface DaemonSources {
  /** The bundle, one file. */
  readonly bundle: string;
  /** What starts the bundle from compiled code. */
  readonly starter: string;
  /** The node binary that runs it. */
  readonly node: string;
  /** Where the perl programs lie, those of the daemon and those of the engine. */
  readonly perlDirectory: string;
  /** The code interpreter of templates that have one; absent: none. */
  readonly interpreterDirectory?: string;
  /** What the daemon answers before its compiled code is written. */
  readonly warmUp: WarmUp;
}

/**
 * The folder with the daemon's world, made when it is missing or not what it was when it was made.
 * @throws SandboxError failed_precondition when a program of this machine is missing, unavailable
 * when another process holds the lock for too long.
 */
export async function prepareDaemon(home: string, sources: DaemonSources): Promise<string> {
  const parts = locateParts(sources);
  const parent = join(home, DAEMONS);
  const directory = join(parent, identityOf(parts));
  // It may be a link to one that several homes share; no link is followed where it is mounted.
  const find = async () =>
    (await isIntact(directory)) ? realpathSync.native(directory) : undefined;
  const make = async (signal: AbortSignal): Promise<string> => {
    await mkdir(parent, { recursive: true, mode: 0o700 });
    // While the lock is held, the makers of these drafts are dead.
    await removeDrafts(parent, "");
    const draft = join(parent, draftOf(randomBytes(8).toString("hex")));
    try {
      await mkdir(join(draft, "lib"), { recursive: true, mode: 0o755 });
      await step("daemon.begun");
      await copyParts(draft, parts, sources.warmUp);
      signal.throwIfAborted();
      await publish(draft, directory);
    } finally {
      await rm(draft, { recursive: true, force: true });
    }
    return directory;
  };
  return prepareOnce(directory, { home, lock: "daemon", find, make });
}

/** Removes what makers that died began. Returns the names. */
export async function removeDeadDaemons(home: string, tell: TellFailure): Promise<string[]> {
  const drafts = { home, folder: join(home, DAEMONS), prefix: "", lock: "daemon" } as const;
  return removeDeadDrafts(drafts, tell);
}

/** Where that folder is, or will be when it is made. */
export async function locateDaemon(home: string, sources: DaemonSources): Promise<string> {
  return join(home, DAEMONS, identityOf(locateParts(sources)));
}

/** At once, for each start: a promise for each file would take longer than all of them. */
function locateParts(sources: DaemonSources): Parts {
  const programs = {
    node: realpathSync.native(sources.node),
    sh: realpathOf("/bin/sh"),
    perl: realpathOf("/usr/bin/perl"),
  };
  const scripts: Record<string, string> = {
    [DAEMON_FILES.program]: realpathOf(sources.bundle),
    [DAEMON_FILES.starter]: realpathOf(sources.starter),
  };
  const { perlDirectory, interpreterDirectory } = sources;
  for (const name of DAEMON_PERL_FILES) {
    scripts[name] = realpathOf(join(perlDirectory, name));
  }
  if (interpreterDirectory !== undefined) {
    for (const name of findPrograms(interpreterDirectory)) {
      scripts[join(INTERPRETER, name)] = join(interpreterDirectory, name);
    }
  }
  const calls = sources.warmUp(DAEMON_DIRECTORY);
  const compiledFor = JSON.stringify([nodeFlags(DAEMON_DIRECTORY), calls]);
  return { programs, scripts, perlDirectory, compiledFor };
}

/** The files of a directory that is copied as it is, in one order. */
function findPrograms(directory: string): string[] {
  return readdirSync(directory)
    .filter((name) => /\.(?:py|sh|mjs)$/.test(name))
    .toSorted();
}

function realpathOf(path: string): string {
  try {
    return realpathSync.native(path);
  } catch (error) {
    throw new SandboxError("failed_precondition", `no ${path}: ${errorText(error)}`, {
      cause: error,
      hint: "run `npm run build` for the bundle; perl comes with perl-base",
    });
  }
}

async function copyParts(draft: string, parts: Parts, warmUp: WarmUp): Promise<void> {
  await mkdir(join(draft, INTERPRETER), { mode: 0o755 });
  for (const [name, path] of Object.entries(parts.scripts)) await copyFile(path, join(draft, name));
  const libraries = new Set<string>();
  const loaders = new Set<string>();
  for (const [name, path] of Object.entries(parts.programs)) {
    await copyFile(path, join(draft, name), constants.COPYFILE_FICLONE);
    const needs = parseLibraries(await runProgram(["ldd", path]));
    for (const library of needs.libraries) libraries.add(library);
    loaders.add(needs.loader);
  }
  const [loader] = loaders;
  if (loader === undefined || loaders.size > 1) {
    throw new SandboxError("failed_precondition", `need one loader, found ${[...loaders].join()}`);
  }
  for (const library of libraries) await copyFile(library, join(draft, "lib", basename(library)));
  await copyLoader(loader, join(draft, "loader"), DAEMON_DIRECTORY);
  await writeFile(join(draft, OPENSSL_CONFIG), "");
  await step("daemon.copied");
  const { perlDirectory } = parts;
  await writeCompileCache(draft, { flags: nodeFlags(draft), warmUp, perlDirectory });
  await step("daemon.compiled");
  await settleModes(draft);
  await writeManifest(draft);
}

async function settleModes(draft: string): Promise<void> {
  for (const name of listFiles(draft)) {
    // A copy has the owner of what was copied: in a user namespace that may be an id of a container.
    await chown(join(draft, name), process.getuid?.() ?? 0, process.getgid?.() ?? 0);
    await chmod(join(draft, name), 0o755);
    await chmod(dirname(join(draft, name)), 0o755);
  }
  // Who may not read a program cannot trace it or read its memory: the kernel makes every process
  // started through this file undumpable, and that is how the daemon's secrets stay its own.
  await chmod(join(draft, "loader"), 0o711);
  for (const folder of [draft, join(draft, "lib"), join(draft, INTERPRETER)])
    await chmod(folder, 0o755);
}

/** What `ldd` says: the loader has no arrow, the kernel's own library has no file. */
export function parseLibraries(text: string): { libraries: string[]; loader: string } {
  const libraries = [...text.matchAll(/=>\s+(\/\S+)\s+\(0x/g)].map((match) => match[1] ?? "");
  const loader = /^\s*(\/\S+)\s+\(0x/m.exec(text)?.[1];
  if (loader === undefined) {
    throw new SandboxError(
      "failed_precondition",
      "a program of the daemon is not linked to a libc",
    );
  }
  return { libraries, loader };
}

/** Not synced to disk, which would take seconds: what a power cut spoils is made anew. */
async function publish(draft: string, directory: string): Promise<void> {
  // What is in the way has lost a part, or was changed.
  await discardFolder(directory);
  await rename(draft, directory);
  await step("daemon.renamed");
}

/** A file of libraries that glibc loads into every program, whatever its arguments. */
const PRELOAD_FILE = "/etc/ld.so.preload";

/**
 * Writes a loader that looks for its list of preloaded libraries in a directory that no sandbox can
 * write to, where there is none: root inside could have the daemon load code of its own by the file
 * in `/etc` and a signal. glibc has no option for it, so the path in the copy is replaced.
 * @param directory where the loader is seen in a sandbox; shorter than that path.
 */
async function copyLoader(source: string, target: string, directory: string): Promise<void> {
  const bytes = await readFile(source);
  const path = Buffer.from(`${directory}/`.padEnd(PRELOAD_FILE.length, "-"), "latin1");
  if (path.length !== PRELOAD_FILE.length) throw new RangeError(`${directory} is too long`);
  for (let at = bytes.indexOf(PRELOAD_FILE); at !== -1; at = bytes.indexOf(PRELOAD_FILE, at)) {
    bytes.set(path, at);
  }
  await writeFile(target, bytes, { mode: 0o755 });
}

/** A change of the folder's layout makes a new folder. */
const LAYOUT = 7;

/** Programs by the name that they get in the folder. */
interface Parts {
  readonly programs: Readonly<Record<string, string>>;
  /** Files of code, by their names there too. */
  readonly scripts: Readonly<Record<string, string>>;
  readonly perlDirectory: string;
  /** What the compiled code depends on besides: the flags of node and the calls of the warm-up run. */
  readonly compiledFor: string;
}

/** Of the last folder that was asked for: each start asks, nearly always for the same one. */
let known: { readonly stamps: string; readonly identity: string } | undefined;

/**
 * A name that changes with any part. Reading 100 MB of node at each start would cost too much; of the
 * code, which is read, as long as no file has changed, by its change time, the last answer holds.
 */
function identityOf({ programs, scripts, compiledFor }: Parts): string {
  const asked = `layout ${LAYOUT}\n${compiledFor}\n`;
  const files = Object.entries(programs).map(([name, path]) => {
    const { size, mtimeNs, ino } = statSync(path, { bigint: true });
    return `${name} ${path} ${size} ${mtimeNs} ${ino}\n`;
  });
  const code = Object.entries(scripts);
  const stamps = [asked, ...files, ...code.map(([name, path]) => stampOf(name, path))].join("");
  if (known?.stamps === stamps) return known.identity;
  const hash = createHash("sha256").update(asked).update(files.join(""));
  for (const [name, path] of code) hash.update(name).update(readFileSync(path));
  const identity = hash.digest("hex").slice(0, 32);
  known = { stamps, identity };
  return identity;
}

function stampOf(name: string, path: string): string {
  const { dev, ino, size, ctimeNs } = statSync(path, { bigint: true });
  return `${name} ${path} ${dev} ${ino} ${size} ${ctimeNs}\n`;
}
