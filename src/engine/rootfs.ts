/**
 * The root file system of a container: read-only layers with the container's ids, and its own
 * writable disk above them, joined by one overlay for `/` and, where layers ask for it, one for `/usr`.
 */

import { lstat } from "node:fs/promises";
import { join, normalize } from "node:path";
import { causeCode, SandboxError } from "../common/errors.ts";
import { ID_RANGE } from "../common/privilege.ts";
import { isRootless } from "../common/privilege.ts";
import { RUN_DIRECTORY } from "./claims.ts";
import { STACKS } from "./disk.ts";
import type { Bind, Layer } from "./engine.ts";
import type { LauncherStep } from "./launcher.ts";

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
  /** Where the n-th bind is when the runtime starts. */
  bind(index: number): string;
}

/**
 * Folders that every system has and a container's root may pass, for who may not make one of his
 * own; the first in which the home does not lie is hidden by the stage.
 */
const BORROWED = ["/mnt", "/media", "/srv"] as const;

/** The stage of the container of this folder. */
export function stageOf(container: string): Stage {
  const borrowed = BORROWED.find((folder) => !container.startsWith(`${folder}/`));
  const directory = isRootless() && borrowed !== undefined ? borrowed : RUN_DIRECTORY;
  return {
    directory,
    root: `${directory}/rootfs`,
    daemon: `${directory}/daemon`,
    users: isRootless() ? undefined : `${directory}/users`,
    bind: (index) => `${directory}/b${index}`,
  };
}

/** The kernel takes 500; long chains are slow for names that do not exist. */
const MAX_LAYERS = 128;

/** A runtime mounts into these, or programs of the host's kind look into them. */
const REAL_FOLDERS = [
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
  for (const tree of trees) {
    if ((await kindOf(tree)) !== "folder") {
      throw new SandboxError("not_found", `layer does not exist: ${tree}`);
    }
  }
  for (const name of REAL_FOLDERS) await checkFolder(name, layers);
}

/** Inside these a runtime or the engine mounts things of its own; and no path ends in a slash. */
const RESERVED_PATTERN = /^\/(?:$|(?:proc|sys|dev|run|usr)(?:\/|$))|\/$/;

/**
 * Refuses binds whose path, or a folder on the way to it, is a link or a file in the layers.
 * @throws SandboxError invalid_argument, or not_found when a source does not exist.
 */
export async function checkBinds(binds: readonly Bind[], layers: readonly Layer[]): Promise<void> {
  for (const { source, path } of binds) {
    if (normalize(path) !== path || !path.startsWith("/") || RESERVED_PATTERN.test(path)) {
      throw new SandboxError("invalid_argument", `nothing can be mounted at ${path}`);
    }
    if ((await kindOf(source)) !== "folder") {
      throw new SandboxError("not_found", `folder does not exist: ${source}`);
    }
    const names = path.split("/").slice(1);
    for (const index of names.keys()) {
      await checkFolder(names.slice(0, index + 1).join("/"), layers);
    }
  }
}

/** The topmost layer that has the name decides what the merged tree shows. */
async function checkFolder(name: string, layers: readonly Layer[]): Promise<void> {
  for (const layer of layers.toReversed()) {
    const kind = await kindOf(join(layer.root, name));
    if (kind === "other") {
      throw new SandboxError("invalid_argument", `/${name} of the template is not a real folder`, {
        hint: "templates may not replace such a folder by a link or a file",
      });
    }
    if (kind !== "missing") return;
  }
}

async function kindOf(path: string): Promise<"folder" | "missing" | "removed" | "other"> {
  try {
    const entry = await lstat(path);
    if (entry.isDirectory()) return "folder";
    // An overlay stores a removal as a character device 0:0.
    return entry.isCharacterDevice() && entry.rdev === 0 ? "removed" : "other";
  } catch (error) {
    if (causeCode(error) === "ENOENT") return "missing";
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
  readonly daemon: string;
}

/** The steps that put the root file system and the daemon on the stage. */
export function stageSteps(options: StageOptions): LauncherStep[] {
  const { layers, binds = [], stage, isMapped } = options;
  const roots = layers.map((layer) => layer.root);
  const steps: LauncherStep[] = [
    ["isolate"],
    ...(isMapped ? [["ids", "0", String(options.idBase), String(ID_RANGE)] as const] : []),
    ["mount", "tmpfs", stage.directory, "mode=0755,size=1m"],
    ["chdir", stage.directory],
    ...(stage.users === undefined ? [] : [["hold", stage.users] as const]),
    ["mkdir", "rootfs"],
    ["mkdir", "disk"],
    ["bind", options.disk, "disk"],
    ["mkdir", "daemon"],
    ["clone", options.daemon, "daemon"],
    ...binds.flatMap(({ source }, index): LauncherStep[] => [
      ["mkdir", stage.bind(index)],
      [isMapped ? "share" : "bind", source, stage.bind(index)],
    ]),
    ...overlaySteps({ trees: roots, prefix: "r", stack: STACKS.root, target: "rootfs", isMapped }),
  ];
  if (!hasUsr(layers)) return steps;
  const usrs = layers.flatMap((layer) => (layer.usr === undefined ? [] : [layer.usr]));
  return [
    ...steps,
    ...overlaySteps({
      trees: usrs,
      prefix: "u",
      stack: STACKS.usr,
      target: "rootfs/usr",
      isMapped,
    }),
  ];
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
