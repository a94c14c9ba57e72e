/** Which snapshots have memory, and which starts go on from it. */

import { expect, test } from "vitest";
import { findMemoryFault, planMemory } from "../../../src/sandboxes/builds/memory.ts";
import type { BuildRecord } from "../../../src/store/store.ts";

const LAYERS = [{ root: "base-1/root" }];
const HOST_LAYERS = [{ root: "base-1/root" }, { root: "/", usr: "/usr" }];
const MOUNTS = [{ name: "data", path: "/data", volumeId: "v1" }];
const MEMORY = { folder: "../memory/b1", team: "one" };

test.for([
  { fault: undefined, layers: LAYERS, mounts: [], keepsMemory: true, says: undefined },
  { fault: "old runsc", layers: LAYERS, mounts: [], keepsMemory: true, says: "old runsc" },
  {
    fault: "old runsc",
    layers: LAYERS,
    mounts: [],
    keepsMemory: false,
    says: "files alone were asked for",
  },
  {
    fault: undefined,
    layers: LAYERS,
    mounts: MOUNTS,
    keepsMemory: true,
    says: "a volume is mounted, whose files others change",
  },
  {
    fault: undefined,
    layers: HOST_LAYERS,
    mounts: [],
    keepsMemory: true,
    says: "its template has files of the machine, which can change",
  },
] as const)("a snapshot → $says", ({ fault, layers, mounts, keepsMemory, says }) => {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what it reads of an entry
  const entry = {
    container: { memoryFault: fault },
    record: { volumeMounts: mounts },
  } as unknown as Parameters<typeof findMemoryFault>[0];
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what it reads of a build
  const parent = { layers } as unknown as BuildRecord;
  expect(findMemoryFault(entry, parent, keepsMemory)).toBe(says);
});

test.for([
  { memory: undefined, plan: undefined },
  { memory: MEMORY, plan: { folder: "/h/memory/b1", carried: { isCarried: true } } },
  { memory: { ...MEMORY, folder: "../memory/of-its-base" }, plan: undefined },
  {
    memory: { fault: "old runsc" },
    plan: { carried: { isCarried: false, reason: "old runsc" } },
  },
  {
    memory: MEMORY,
    keepsMemory: false,
    plan: { carried: { isCarried: false, reason: "files alone were asked for" } },
  },
  {
    memory: { ...MEMORY, team: "two" },
    plan: { carried: { isCarried: false, reason: "the snapshot is of another team" } },
  },
  {
    memory: MEMORY,
    mounts: MOUNTS,
    plan: {
      carried: { isCarried: false, reason: "a volume is mounted, whose files others change" },
    },
  },
])("a start from $memory goes on as $plan", ({ memory, keepsMemory = true, mounts = [], plan }) => {
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- what it reads of a build
  const build = { buildId: "b1", memory } as unknown as BuildRecord;
  const place = { team: "one", layersDirectory: "/h/layers" };
  expect(planMemory(place, { build, keepsMemory, mounts })).toEqual(plan);
});
