/** Which layers nothing stands on any more. */

import { expect, test } from "vitest";
import {
  findOrphanDisks,
  findOrphanMemory,
  findOrphans,
  layerFolders,
  toDisk,
  unnamedFolders,
} from "../../../src/sandboxes/builds/layer-folders.ts";
import { openStore } from "../../../src/store/sqlite.ts";
import type { BuildRecord } from "../../../src/store/store.ts";
import { READY_BUILD } from "../../support/engine/build-record.ts";
import { createRandom } from "../../support/random.ts";

const PARENT = "11111111-1111-4111-8111-111111111111";
const CHILD = "22222222-2222-4222-8222-222222222222";
const UNFINISHED = "33333333-3333-4333-8333-333333333333";
const GONE = "44444444-4444-4444-8444-444444444444";

function build(buildId: string, changes: Partial<BuildRecord>): BuildRecord {
  return { ...READY_BUILD, buildId, ...changes };
}

test("a snapshot's layer stays while a build stands on it or is being made", () => {
  const builds = [
    build(CHILD, {
      layers: [
        { root: "base-1700000000000-0011aabb/root" },
        { root: "host-1/over/root", usr: "/usr" },
        { root: `${PARENT}/root` },
        { root: `${CHILD}/root` },
      ],
    }),
    build(UNFINISHED, { status: "building" }),
  ];
  const folders = [
    "base-1700000000000-0011aabb",
    "base-1600000000000-0011aabb",
    "host-1",
    "notes",
    PARENT,
    CHILD,
    `${UNFINISHED}.part`,
    GONE,
    `${GONE}.part`,
  ];
  expect(findOrphans(folders, builds)).toEqual([GONE, `${GONE}.part`]);
});

test("the disk of a snapshot stays while a build names it or is being made", () => {
  const disk = { image: `../store/snapshots/${CHILD}/disk.img`, idBase: 1_048_576 };
  const child = build(CHILD, { layers: [{ root: `${PARENT}/root` }], disk });
  expect(layerFolders(child)).toEqual([PARENT, `../store/snapshots/${CHILD}`]);
  expect(toDisk("/h/layers", child)).toEqual({
    image: `/h/store/snapshots/${CHILD}/disk.img`,
    idBase: 1_048_576,
  });
  const builds = [child, build(UNFINISHED, { status: "building" })];
  const folders = [CHILD, `${UNFINISHED}.0011aabb.part`, PARENT, `${GONE}.part`, "notes"];
  expect(findOrphanDisks([...folders, ".share-1", ".share-1.copy"], builds)).toEqual([
    PARENT,
    `${GONE}.part`,
    ".share-1",
    ".share-1.copy",
  ]);
});

test("the memory of a snapshot goes with its build, whatever stands on its layer", () => {
  const memory = { folder: `../memory/${PARENT}`, team: "t" };
  const parent = build(PARENT, { layers: [{ root: `${PARENT}/root` }], memory });
  expect(layerFolders(parent)).toEqual([PARENT, `../memory/${PARENT}`]);
  const child = build(CHILD, {
    layers: [{ root: `${GONE}/root` }],
    memory: { fault: "the memory could not be saved" },
  });
  expect(layerFolders(child)).toEqual([GONE]);
  const builds = [parent, child, build(UNFINISHED, { status: "building" })];
  const folders = [PARENT, `${UNFINISHED}.0011aabb.part`, CHILD, GONE, `${GONE}.part`, "notes"];
  expect(findOrphanMemory(folders, builds)).toEqual([CHILD, GONE, `${GONE}.part`]);
});

test.for([1, 2, 3])("of removed builds go what no other one names, seed %i", (seed) => {
  using store = openStore({ path: ":memory:" });
  const random = createRandom(seed);
  const id = () => `${random.below(10)}${PARENT.slice(1)}`;
  const builds = Array.from({ length: 14 }, (_, index) =>
    build(`b${index}`, {
      // Below another name, and in what a client chose, it is no folder of the build.
      layers: [
        { root: `base-${random.below(3)}/root`, usr: "/usr" },
        ...(random.once(2) ? [{ root: `${id()}/root`, usr: `over/${id()}` }] : [{ root: id() }]),
      ],
      ...(random.once(3) && { disk: { image: `../disks/${id()}/disk.img`, idBase: 1 } }),
      ...(random.once(3) && { memory: { folder: `../memory/${id()}`, team: "t" } }),
      setup: { environment: { ID: `${id()}/root` }, startCommand: id(), readyCommand: "" },
    }),
  );
  const [removed, kept] = [builds.slice(0, 7), builds.slice(7)];
  for (const one of kept) store.builds.put(one);
  const named = new Set(kept.flatMap(layerFolders));
  const gone = [...new Set(removed.flatMap(layerFolders))].filter((folder) => !named.has(folder));
  expect(gone.length).toBeGreaterThan(0);
  expect(unnamedFolders(store, removed)).toEqual(gone);
});

test.for([1, 12])("of %i folders is asked without the records of other builds", (count) => {
  using store = openStore({ path: ":memory:" });
  // Of a later version: this one reads no such record.
  store.builds.put(build(CHILD, { createdAtMs: Number.NaN, layers: [{ root: `${CHILD}/root` }] }));
  expect(() => store.builds.all()).toThrow("cannot be read");
  const gone = Array.from({ length: count }, (_, index) => `layer${index}`);
  const layers = [{ root: `${CHILD}/root` }, ...gone.map((name) => ({ root: `${name}/root` }))];
  expect(unnamedFolders(store, [build(GONE, { layers })])).toEqual(gone);
});

test("a build that is changed, moved or removed names what it has then", () => {
  using store = openStore({ path: ":memory:" });
  const names = () => ["a", "b", "../d/x", "../m/y"].filter((name) => store.builds.hasFolder(name));
  const disk = { image: "../d/x/disk.img", idBase: 1 };
  const memory = { folder: "../m/y", team: "t" };
  store.builds.put(build(CHILD, { layers: [{ root: "a/root", usr: "b" }], disk, memory }));
  store.builds.put(build(PARENT, { layers: [{ root: "a" }, { root: "a/other" }] }));
  expect(names()).toEqual(["a", "b", "../d/x", "../m/y"]);
  store.builds.put(build(CHILD, { layers: [{ root: "/b/root" }], memory }));
  expect(names()).toEqual(["a", "../m/y"]);
  store.builds.remove(PARENT);
  expect(names()).toEqual(["../m/y"]);
  store.builds.remove(CHILD);
  expect(names()).toEqual([]);
});
