/** E43: which places for mounts a path alone decides: pairs and triples over all folders there are. */

import { readdir } from "node:fs/promises";
import { join } from "node:path";
import { expect, test } from "vitest";
import { findMountFault } from "../../../src/engine/oci/verify-container.ts";
import {
  cleanBindPath,
  findOverlap,
  findPathFault,
} from "../../../src/engine/storage/bind-paths.ts";
import { baseLayers } from "../../support/base-layer.ts";
import { FORBIDDEN, mountCase, ORDINARY } from "../../support/hostile/mount-cases.ts";
import { chooseSeed, createRandom } from "../../support/random.ts";
import { tellCells } from "../../support/run/cells.ts";

const DEPTH = 3;
const GENERATED = 20_000;

test("E43 no folder may lie in, on or above another or one of the system's", async (context) => {
  const folders = await foldersOf(await baseLayers());
  expect(folders.length).toBeGreaterThan(150);
  const allowed = folders.filter((path) => findPathFault(path) === undefined);
  expect(folders.filter((path) => !isForbidden(path))).toEqual(allowed);
  let pairs = 0;
  for (const one of folders) {
    for (const other of allowed) {
      pairs += 1;
      if ((findOverlap(one, [other]) === other) !== overlaps(one, other)) {
        throw new Error(`${one} and ${other}`);
      }
    }
  }
  tellCells(context, folders.length + pairs);
});

test("E43 what people ask for is let through", () => {
  for (const path of ORDINARY) expect(`${path}: ${findPathFault(path)}`).toBe(`${path}: undefined`);
});

test.for([
  { what: "no text", path: "" },
  { what: "relative", path: "data" },
  { what: "dots", path: "/data/../proc" },
  { what: "one dot", path: "/./data" },
  { what: "a name of 256 bytes", path: `/${"ä".repeat(128)}` },
  { what: "1,025 bytes", path: `/${"x/".repeat(512)}` },
  { what: "a zero byte", path: "/data\0" },
  { what: "a line break", path: "/data\n/x" },
  { what: "half a surrogate pair", path: "/data\uD800" },
  { what: "a doubled slash", path: "//proc" },
  { what: "a slash at the end", path: "/etc/" },
  { what: "the root", path: "///" },
])("E43 a path is refused for $what", ({ path }) => {
  expect(findPathFault(path)).toBeTypeOf("string");
});

test("E43 whatever is spelled is refused or is a place of its own", (context) => {
  const seed = chooseSeed();
  const wrong: string[] = [];
  for (let count = 0; count < GENERATED; count += 1) {
    const taken: string[] = [];
    for (const path of mountCase(createRandom(seed + count))) {
      const clean = cleanBindPath(path);
      const isTaken = findPathFault(path) === undefined && findOverlap(clean, taken) === undefined;
      if (!isTaken) continue;
      if (isForbidden(clean) || taken.some((other) => overlaps(clean, other))) {
        wrong.push(`seed ${seed + count}: ${JSON.stringify(path)} beside ${taken.join()}`);
      }
      taken.push(clean);
    }
  }
  expect(wrong).toEqual([]);
  tellCells(context, GENERATED);
});

test("E43 a mount that is missing, doubled, elsewhere or another one is told", (context) => {
  const seed = chooseSeed();
  const random = createRandom(seed);
  const layers = [{ root: "/layer" }];
  for (let count = 0; count < GENERATED; count += 1) {
    const binds = [{ source: "/home/volumes/id-of-a-volume", path: random.pick(ORDINARY) }];
    const right = mountsOf(binds[0]?.path ?? "");
    expect(findMountFault(right, { binds, layers })).toBeUndefined();
    const { what, mounts } = spoil(right);
    if (findMountFault(mounts, { binds, layers }) !== undefined) continue;
    throw new Error(`seed ${seed}, case ${count}: ${what} was not told`);
  }
  tellCells(context, GENERATED);

  function spoil(mounts: ReturnType<typeof mountsOf>) {
    const victim = random.below(mounts.length - COVERED);
    const target = mounts[victim]?.target ?? "";
    const volume = {
      target,
      root: "/volumes/id-of-a-volume",
      type: "ext4",
      source: "",
      options: [],
    };
    const spoiled = random.pick([
      { what: "missing", mounts: mounts.toSpliced(victim, 1) },
      { what: "doubled", mounts: [...mounts, { ...volume, target }] },
      { what: "moved", mounts: mounts.with(victim, { ...volume, target: "/elsewhere" }) },
      { what: "more", mounts: [...mounts, { ...volume, target: `${target}/more` }] },
      { what: "in /proc", mounts: [...mounts, { ...volume, target: "/proc/acpi" }] },
    ]);
    const isOwn = target === "/" && spoiled.what === "more";
    return isOwn ? { what: "missing", mounts: mounts.toSpliced(victim, 1) } : spoiled;
  }
});

/** The last ones of {@link mountsOf}, which may be there or not. */
const COVERED = 2;

function mounted(target: string, type: string, root = "/") {
  return { target, type, root, source: type, options: [] };
}

function mountsOf(path: string) {
  return [
    mounted("/", "overlay"),
    mounted("/proc", "proc"),
    mounted("/dev", "tmpfs"),
    mounted("/sys", "sysfs"),
    mounted("/run", "tmpfs"),
    mounted("/run/sandbox-mcp", "overlay"),
    mounted(path, "ext4", "/volumes/id-of-a-volume"),
    mounted("/dev/null", "tmpfs", "/null"),
    mounted("/proc/keys", "tmpfs", "/null"),
  ];
}

/** Said by components, not by patterns. */
function isForbidden(path: string): boolean {
  const [, top = ""] = path.split("/");
  return top === "" || top.startsWith("lib") || FORBIDDEN.includes(`/${top}`);
}

function overlaps(one: string, other: string): boolean {
  const [left, right] = [one.split("/"), other.split("/")];
  return left.slice(0, right.length).every((name, index) => right[index] === name);
}

/** Every folder of the layers down to a depth, those in which the runtime mounts, and `/`. */
async function foldersOf(layers: Awaited<ReturnType<typeof baseLayers>>): Promise<string[]> {
  const found = new Set([
    "/",
    "/run/sandbox-mcp",
    "/run/sandbox-mcp/lib",
    "/proc/self",
    "/dev/shm",
  ]);
  const look = async (root: string, path: string, depth: number): Promise<void> => {
    for (const entry of await readdir(join(root, path), { withFileTypes: true })) {
      const inside = `${path}/${entry.name}`;
      if (entry.isDirectory() || entry.isSymbolicLink()) found.add(inside);
      // What lies below /usr is as forbidden as what lies beside it.
      if (entry.isDirectory() && depth < DEPTH && inside !== "/usr/share") {
        await look(root, inside, depth + 1);
      }
    }
  };
  for (const { root } of layers) await look(root, "", 1);
  return [...found];
}
