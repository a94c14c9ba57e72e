/** Reads the tree of a sandbox in one fixed order, without what is mounted or belongs to the daemon. */

import { lstatSync, readdirSync, readFileSync, type Stats } from "node:fs";
import { setImmediate as nextTurn } from "node:timers/promises";
import { DAEMON_PATHS } from "../../wire/pod-listener.ts";

/** What a walk looks at. Names are bytes, of which each is one character. */
export interface TreePlace {
  /** Without a slash at its end: empty for that of the machine. */
  readonly root: string;
  /** Where the list of the first walk is kept. */
  readonly baselineFile: string;
  /** Paths from the root that are left out with all below them, such as `run/sandbox-mcp`. */
  readonly leftOut: readonly string[];
}

export interface TreeEntry {
  readonly name: string;
  readonly stats: Stats;
}

export interface TreeWalk {
  /** Its entries by the order of their bytes; undefined when it is no directory any more. */
  list(path: string): Promise<readonly TreeEntry[] | undefined>;
}

/** A walk gives way to requests after so long. */
const SLICE_MS = 5;
const MOUNT_POINT = 4;

/** How a daemon in a Pod walks. */
export const SANDBOX_TREE: TreePlace = {
  root: "",
  baselineFile: "/run/sandbox-mcp.baseline",
  leftOut: DAEMON_PATHS,
};

export function createWalk(place: TreePlace): TreeWalk {
  const leftOut = new Set([...place.leftOut, ...mountPoints(place.root)]);
  let begun = performance.now();

  async function giveWay(): Promise<void> {
    if (performance.now() - begun < SLICE_MS) return;
    await nextTurn();
    begun = performance.now();
  }

  return {
    async list(path) {
      const names = namesOf(toBytes(place, path));
      if (names === undefined) return undefined;
      const entries: TreeEntry[] = [];
      for (const name of names) {
        const below = join(path, name);
        if (leftOut.has(below)) continue;
        const stats = statsOf(toBytes(place, below));
        if (stats !== undefined) entries.push({ name, stats });
        await giveWay();
      }
      await giveWay();
      return entries;
    },
  };
}

export function join(directory: string, name: string): string {
  return directory === "" ? name : `${directory}/${name}`;
}

/** The path for the kernel. */
export function toBytes({ root }: Pick<TreePlace, "root">, path: string): Buffer {
  return Buffer.from(`${root}/${path}`, "latin1");
}

function namesOf(path: Buffer): string[] | undefined {
  try {
    const names = readdirSync(path, { encoding: "buffer" }).map((name) => name.toString("latin1"));
    // By their bytes: each character is one.
    return names.toSorted((left, right) => (left < right ? -1 : 1));
  } catch {
    return undefined;
  }
}

/** Undefined for what vanished meanwhile, or has a path beyond the bounds of the kernel. */
function statsOf(path: Buffer): Stats | undefined {
  try {
    return lstatSync(path);
  } catch {
    return undefined;
  }
}

/** Below the root. */
function mountPoints(root: string): string[] {
  return readFileSync("/proc/self/mountinfo", "latin1")
    .split("\n")
    .flatMap((line) => line.split(" ")[MOUNT_POINT] ?? [])
    .map((point) => point.replaceAll(/\\([0-7]{3})/g, (_all, digits: string) => fromOctal(digits)))
    .filter((point) => point.startsWith(`${root}/`) && point.length > root.length + 1)
    .map((point) => point.slice(root.length + 1));
}

function fromOctal(digits: string): string {
  return String.fromCharCode(Number.parseInt(digits, 8));
}
