/**
 * The root file system of a container: read-only layers with the container's ids, and its own
 * writable disk above them, joined by one overlay for `/` and, where layers ask for it, one for `/usr`.
 */

import { existsSync } from "node:fs";
import { lstat } from "node:fs/promises";
import { join } from "node:path";
import { causeCode, SandboxError } from "../../common/errors.ts";
import { ID_RANGE, isRootless } from "../../common/privilege.ts";
import type { Bind, Layer } from "../engine.ts";
import { RUN_DIRECTORY } from "../host/id-ranges.ts";
import type { LauncherStep } from "../host/launcher.ts";
import { bindFault, cleanBindPath, findOverlap, findPathFault } from "./bind-paths.ts";
import { STACKS } from "./disk.ts";

/**
 * Everything is mounted below one folder, in the launcher's own mount namespace: short names for
 * the overlay's options, which have one page, and no path of the home for the container to see.
 */
export interface Stage {
  readonly directory: string;
  readonly root: string;
  readonly daemon: string;
  /** The file of the user namespace; undefined where the runtime makes one. */
  readonly users: string | undefined;
}

/**
 * Folders that systems have and a container's root may pass, for who may not make one of his own; the
 * first that is there, and in which the home does not lie, is hidden by the stage.
 */
const BORROWED = ["/mnt", "/media", "/srv"] as const;

export function stageOf(container: string): Stage {
  const borrowed = BORROWED.find(
    (folder) => !container.startsWith(`${folder}/`) && existsSync(folder),
  );
  const directory = isRootless() && borrowed !== undefined ? borrowed : RUN_DIRECTORY;
  return {
    directory,
    root: `${directory}/rootfs`,
    daemon: `${directory}/daemon`,
    users: isRootless() ? undefined : `${directory}/users`,
  };
}

/** The kernel takes 500; long chains are slow for names that do not exist. */
const MAX_LAYERS = 128;

/** A runtime mounts into these, or programs of the host's kind look into them. */
export const REAL_FOLDERS = [
  "dev",
  "etc",
  "home",
  "mnt",
  "proc",
  "root",
  "run",
  "sys",
  "tmp",
  "usr",
  "var",
] as const;

/** Whether `/usr` is stacked separately. */
export function hasUsr(layers: readonly Layer[]): boolean {
  return layers.some((layer) => layer.usr !== undefined);
}

/**
 * Refuses layers in which a folder that the runtime touches is a link or a file: old runtimes
 * follow such links on the host.
 * @throws SandboxError invalid_argument, or not_found when a layer does not exist.
 */
export async function checkLayers(layers: readonly Layer[]): Promise<void> {
  if (layers.length > MAX_LAYERS) {
    throw new SandboxError("invalid_argument", `${layers.length} layers, at most ${MAX_LAYERS}`);
  }
  const trees = layers.flatMap((layer) => [layer.root, ...(layer.usr ? [layer.usr] : [])]);
  // Beside each other: each look waits for a thread of its own.
  await Promise.all(trees.map(checkTree));
  await Promise.all(REAL_FOLDERS.map(async (name) => checkFolder(name, layers)));
}

async function checkTree(tree: string): Promise<void> {
  if ((await kindOf(tree)) === "folder") return;
  const cause = new Error(`no folder at ${tree}`);
  throw new SandboxError("not_found", "a layer does not exist", { cause });
}

/**
 * Refuses binds that cannot be told to be safe from their paths alone, or whose path, or a folder on
 * the way to it, is a link or a file in the layers. A layer of a sandbox may show other folders than
 * it holds by name; the launcher looks at the merged tree once more.
 * @throws SandboxError invalid_argument by `bindFault`, or not_found when a source does not exist.
 */
export async function checkBinds(binds: readonly Bind[], layers: readonly Layer[]): Promise<void> {
  const paths: string[] = [];
  for (const { source, path } of binds) {
    const fault = findPathFault(path);
    if (fault !== undefined) throw bindFault(`nothing can be mounted at ${path}: ${fault}`);
    if (cleanBindPath(path) !== path || findOverlap(path, paths) !== undefined) {
      throw bindFault(`nothing can be mounted at ${path}`);
    }
    paths.push(path);
    if ((await kindOf(source)) !== "folder") {
      const cause = new Error(`no folder at ${source}`);
      throw new SandboxError("not_found", `the folder for ${path} does not exist`, { cause });
    }
    const names = path.split("/").slice(1);
    for (const index of names.keys()) {
      const folder = names.slice(0, index + 1).join("/");
      if (await isReal(folder, layers)) continue;
      throw bindFault(`nothing can be mounted at ${path}: /${folder} is not a real folder`);
    }
  }
}

async function isReal(name: string, layers: readonly Layer[]): Promise<boolean> {
  return (await mergedKind(name, layers)) !== "other";
}

/** Whether the merged tree has a folder of this name. */
export async function hasFolder(name: string, layers: readonly Layer[]): Promise<boolean> {
  return (await mergedKind(name, layers)) === "folder";
}

/** The topmost layer that has the name decides what the merged tree shows. */
async function mergedKind(name: string, layers: readonly Layer[]): Promise<Kind> {
  for (const layer of layers.toReversed()) {
    const kind = await kindOf(join(layer.root, name));
    if (kind !== "missing") return kind;
  }
  return "missing";
}

async function checkFolder(name: string, layers: readonly Layer[]): Promise<void> {
  if (await isReal(name, layers)) return;
  throw new SandboxError("invalid_argument", `/${name} of the template is not a real folder`, {
    hint: "templates may not replace such a folder by a link or a file",
  });
}

type Kind = "folder" | "missing" | "removed" | "other";

async function kindOf(path: string): Promise<Kind> {
  try {
    const entry = await lstat(path);
    if (entry.isDirectory()) return "folder";
    // An overlay stores a removal as a character device 0:0.
    return entry.isCharacterDevice() && entry.rdev === 0 ? "removed" : "other";
  } catch (error) {
    const code = causeCode(error) ?? "";
    if (code === "ENOENT") return "missing";
    // Below a file or a link to one there is nothing to look at.
    if (code === "ENOTDIR" || code === "ELOOP") return "other";
    throw error;
  }
}

export interface StageOptions {
  readonly stage: Stage;
  /** Whether mounts show files with the container's ids; else files have them on disk. */
  readonly isMapped: boolean;
  readonly layers: readonly Layer[];
  readonly binds?: readonly Bind[];
  readonly idBase: number;
  /** Mount point of the container's disk. */
  readonly disk: string;
  /** The first id of its files, where that is another one than `idBase`. */
  readonly diskIdBase?: number | undefined;
  readonly daemon: string;
  /** Whether the daemon's files belong to root of the container, which can read all of them then. */
  readonly ownsDaemon?: boolean;
}

/** The steps that put the root file system and the daemon on the stage. */
export function stageSteps(options: StageOptions): LauncherStep[] {
  const { layers, stage, isMapped } = options;
  const roots = layers.map((layer) => layer.root);
  const steps: LauncherStep[] = [
    ["isolate"],
    ...(isMapped ? [["ids", "0", String(options.idBase), String(ID_RANGE)] as const] : []),
    ["mount", "tmpfs", stage.directory, "mode=0755,size=1m"],
    ["chdir", stage.directory],
    ...(stage.users === undefined ? [] : [["hold", stage.users] as const]),
    ["mkdir", "rootfs"],
    ["mkdir", "disk"],
    diskStep(options),
    ...daemonSteps(options.daemon, options.ownsDaemon ? "idmap" : "clone"),
    ...overlaySteps({ trees: roots, prefix: "r", stack: STACKS.root, target: "rootfs", isMapped }),
  ];
  const usrs = layers.flatMap((layer) => (layer.usr === undefined ? [] : [layer.usr]));
  const usr = { trees: usrs, prefix: "u", stack: STACKS.usr, target: "rootfs/usr", isMapped };
  return [
    ...steps,
    ...(hasUsr(layers) ? overlaySteps(usr) : []),
    ...bindSteps(options),
    // Only root of the machine may make nodes; the stage itself needs none any more.
    ...(isMapped ? [["devices", "/dev"] as const] : []),
  ];
}

function diskStep({ disk, diskIdBase, idBase }: StageOptions): LauncherStep {
  if (diskIdBase === undefined || diskIdBase === idBase) return ["bind", disk, "disk"];
  return ["remap", disk, "disk", String(diskIdBase), String(idBase)];
}

/**
 * An overlay has inodes of its own: no lock and no watch on a file of the daemon is seen by another
 * sandbox, although all run the same files from the same pages.
 */
function daemonSteps(daemon: string, view: "clone" | "idmap"): LauncherStep[] {
  return [
    ["mkdir", "code"],
    [view, daemon, "code"],
    ["mkdir", "none"],
    ["mkdir", "daemon"],
    // An overlay without a writable layer needs two trees.
    ["mount", "overlay", "daemon", "lowerdir=code:none"],
  ];
}

/**
 * Binds are mounted by the launcher, not by the runtime, which follows links inside the root. The
 * folders on the way lie in the container's own root, which nothing else can change meanwhile.
 */
function bindSteps({ binds = [], idBase, isMapped }: StageOptions): LauncherStep[] {
  const ids = isMapped ? "mapped" : "plain";
  return binds.map(({ source, path }) => ["volume", source, "rootfs", path, `${idBase}`, ids]);
}

interface OverlayOptions {
  /** Bottom first. */
  readonly trees: readonly string[];
  readonly prefix: string;
  readonly stack: { readonly upper: string; readonly work: string };
  readonly target: string;
  readonly isMapped: boolean;
}

function overlaySteps(options: OverlayOptions): LauncherStep[] {
  const { trees, prefix, stack, isMapped } = options;
  const names = trees.map((_tree, index) => `${prefix}${index}`);
  // An overlay needs a tree below the writable one; a container without layers gets an empty one.
  const lower = names.length === 0 ? [`${prefix}0`] : names.toReversed();
  const data = [
    `lowerdir=${lower.join(":")}`,
    `upperdir=disk/${stack.upper}`,
    `workdir=disk/${stack.work}`,
    // A rename of a folder from a layer is stored as such; only the host's root can write the mark.
    ...(isMapped ? ["redirect_dir=on", "metacopy=off", "index=off"] : ["userxattr"]),
  ];
  return [
    ...lower.map((name) => ["mkdir", name] as const),
    ...trees.map(
      (tree, index) => [isMapped ? "idmap" : "clone", tree, `${prefix}${index}`] as const,
    ),
    ["mount", "overlay", options.target, data.join(",")],
  ];
}
