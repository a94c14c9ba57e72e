/** Writes what layers show together as one archive, with the owners that programs inside see. */

import { mkdir, readFile } from "node:fs/promises";
import { join } from "node:path";
import { SandboxError } from "../../common/errors.ts";
import { ID_RANGE, isRootless } from "../../common/privilege.ts";
import { quoteUntrusted } from "../../common/untrusted-text.ts";
import type { DiskCopy, Layer } from "../engine.ts";
import { launcherCommand, type LauncherStep } from "../host/launcher.ts";
import { runProgram } from "../host/run-program.ts";
import { restoreDisk } from "./disk-copy.ts";
import { DISK_NAMES, STACKS } from "./disk.ts";

/** Layers have gigabytes. */
const TIMEOUT_MS = 30 * 60_000;

/** Of the attributes those that mean the same elsewhere; the program's own marks of removals are none. */
const TAR = [
  "tar",
  "--directory=all",
  "--create",
  "--format=pax",
  "--pax-option=delete=atime,delete=ctime",
  "--numeric-owner",
  "--sort=name",
  "--xattrs",
  "--xattrs-include=user.*",
  "--xattrs-include=security.capability",
  "--xattrs-exclude=user.overlay.*",
  "--file=disk/layer.tar",
  ".",
] as const;

/** Names that readers of an archive of a layer take for orders to hide other files. */
const RESERVED = ".wh.*";
/** Runs its arguments, unless a file has a reserved name: then that one is written to a list. */
const UNLESS_RESERVED = `find all -name '${RESERVED}' -print0 -quit >disk/reserved && test -s disk/reserved || exec "$@"`;

export interface ArchiveSource {
  /** Bottom first. */
  readonly layers: readonly Layer[];
  /** The disk of a snapshot upon them. */
  readonly disk?: DiskCopy | undefined;
  /** An empty directory; the archive is `layer.tar` in it. */
  readonly directory: string;
  readonly perlDirectory: string;
  readonly signal: AbortSignal;
}

/**
 * @throws SandboxError failed_precondition without root, and for a file whose name begins with `.wh.`;
 * unavailable when the disk is full, canceled
 */
export async function archiveLayers(source: ArchiveSource): Promise<string> {
  const { layers, disk, directory, perlDirectory, signal } = source;
  if (isRootless()) {
    throw new SandboxError("failed_precondition", "only root can write the owners of an archive", {
      hint: "run it as root",
    });
  }
  const stage = join(directory, "stage");
  await mkdir(stage, { mode: 0o700 });
  // A mount writes to what it mounts.
  if (disk !== undefined) await restoreDisk(disk, { directory, place: undefined, signal });
  const roots = layers.map(({ root }) => toTree(root));
  const usrs = layers.flatMap(({ usr }) => (usr === undefined ? [] : [toTree(usr)]));
  const upper = (stack: keyof typeof STACKS): Tree[] =>
    disk === undefined ? [] : [{ kind: "idmap", path: `written/${STACKS[stack].upper}` }];
  const steps: LauncherStep[] = [
    ["isolate"],
    ["mount", "tmpfs", stage, "mode=0700,size=1m"],
    ["chdir", stage],
    ...["disk", "empty", "all"].map((name) => ["mkdir", name] as const),
    ["bind", directory, "disk"],
    ...(disk === undefined ? [] : diskSteps(join(directory, DISK_NAMES.image), disk)),
    ...overlaySteps([...roots, ...upper("root")], "r", "all"),
    ...(usrs.length === 0 ? [] : overlaySteps([...usrs, ...upper("usr")], "u", "all/usr")),
    ["exec", "sh", "-c", UNLESS_RESERVED, "sh", ...TAR],
  ];
  await runProgram(launcherCommand(perlDirectory, steps), { timeoutMs: TIMEOUT_MS, signal });
  await refuseReserved(join(directory, "reserved"));
  return join(directory, "layer.tar");
}

async function refuseReserved(list: string): Promise<void> {
  const [path = ""] = (await readFile(list, "utf8")).split("\0");
  if (path === "") return;
  const name = quoteUntrusted(path.replace(/^all/, ""));
  throw new SandboxError("failed_precondition", `an image cannot contain ${name}`, {
    hint: "names that begin with .wh. hide other files of an image: rename or remove the file",
  });
}

interface Tree {
  readonly kind: "clone" | "idmap";
  readonly path: string;
}

function toTree(path: string): Tree {
  return { kind: "clone", path };
}

/** Its trees are shown with plain ids. */
function diskSteps(image: string, { idBase }: DiskCopy): LauncherStep[] {
  return [
    ["mkdir", "written"],
    ["attach", image, "written"],
    ["ids", String(idBase), "0", String(ID_RANGE)],
  ];
}

function overlaySteps(trees: readonly Tree[], prefix: string, target: string): LauncherStep[] {
  const names = trees.map((_tree, index) => `${prefix}${index}`);
  // An overlay without a writable layer needs two trees.
  const lower = [...names.toReversed(), "empty"].join(":");
  return [
    ...names.map((name) => ["mkdir", name] as const),
    ...trees.map(({ kind, path }, index) => [kind, path, `${prefix}${index}`] as const),
    ["mount", "overlay", target, `lowerdir=${lower},redirect_dir=on,metacopy=off,index=off`],
  ];
}
