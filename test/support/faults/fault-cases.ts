/** Which operation passes which named steps, how it is begun, and from which step on it counts. */

import type { StepName } from "../../../src/common/steps.ts";
import { listAll, make, type FaultHome } from "./fault-home.ts";
import { volumeOperations } from "./fault-volumes.ts";
import { hasPooled } from "./truth.ts";

/** What became of the sandbox that an operation is about. */
export type Fate = "running" | "paused" | "gone";

export interface Operation {
  readonly name: string;
  /** In the order in which they come. */
  readonly steps: readonly StepName[];
  /** From this step on, a service that is started anew finds the new fate; before it, the old. */
  readonly countsFrom: StepName;
  readonly before: Fate;
  readonly after: Fate;
  /** Sandboxes that may be there besides, once it counts. */
  readonly mayMake: number;
  /** Whether it is answered before these steps, which go on in the background. */
  readonly isAnsweredFirst?: boolean;
  /** Makes what the operation is about; returns its identifier. */
  prepare(home: FaultHome): Promise<string>;
  /** Begins it; resolves with the status, undefined when the service died. */
  act(home: FaultHome, id: string): Promise<number | undefined>;
}

const LAUNCH: readonly StepName[] = [
  "launch.prepared",
  "launch.running",
  "launch.recorded",
  "launch.connected",
];
const REMOVAL: readonly StepName[] = [
  "removal.killed",
  "removal.disconnected",
  "removal.unmounted",
  "removal.ungrouped",
  "removal.emptied",
  "removal.released",
];
const HALT: readonly StepName[] = [
  "halt.recorded",
  "halt.killed",
  "halt.unmounted",
  "halt.synced",
  "halt.cleared",
];
const START: readonly StepName[] = [
  "create.intent",
  "container.folder",
  "container.ids",
  "disk.formatted",
  ...LAUNCH,
  "create.started",
  "create.told",
  "create.healthy",
  "create.committed",
];
const COPY: readonly StepName[] = [
  "snapshot.intent",
  "layer.begun",
  "copy.ahead",
  "copy.frozen",
  "copy.copied",
  "copy.thawed",
  "layer.synced",
  "layer.renamed",
  "layer.durable",
];
const CLONE: readonly StepName[] = [
  "snapshot.intent",
  "layer.begun",
  "clone.ahead",
  "clone.frozen",
  "clone.cloned",
  "clone.thawed",
  "layer.synced",
  "layer.renamed",
  "layer.durable",
];
const KILL: readonly StepName[] = [
  "kill.cut",
  "kill.intent",
  ...REMOVAL,
  "kill.removed",
  "kill.erased",
];

const POLL_MS = 50;

/** Each sandbox of a case holds this file. */
export const KEPT = { path: "/files?path=/home/user/kept.txt", text: "kept" } as const;

async function makeKept(home: FaultHome, wishes: Readonly<Record<string, unknown>> = {}) {
  const id = await make(home, wishes);
  await home.enter(id, KEPT.path, KEPT.text);
  return id;
}

async function makePaused(home: FaultHome, memory: boolean): Promise<string> {
  const id = await makeKept(home);
  await home.call("POST", `/sandboxes/${id}/pause`, { memory });
  return id;
}

/** Nobody asks for the end of a time to live: the service dies in it by itself. */
async function untilExpired(home: FaultHome): Promise<undefined> {
  await home.hit();
  return undefined;
}

const send =
  (method: string, path: (id: string) => string, body?: unknown): Operation["act"] =>
  async (home, id) =>
    (await home.call(method, path(id), body))?.status;

const RUNNING = { before: "running", mayMake: 0, prepare: makeKept } as const;

export const OPERATIONS: readonly Operation[] = [
  {
    name: "create",
    steps: START,
    countsFrom: "create.committed",
    before: "gone",
    after: "gone",
    mayMake: 1,
    prepare: async () => "none",
    act: send("POST", () => "/sandboxes", { templateID: "base", timeout: 3600, secure: false }),
  },
  {
    ...RUNNING,
    name: "pause",
    steps: ["pause.cut", "pause.frozen", "pause.committed"],
    countsFrom: "pause.committed",
    after: "paused",
    act: send("POST", (id) => `/sandboxes/${id}/pause`),
  },
  {
    ...RUNNING,
    name: "pause without memory",
    steps: [...HALT, "pause.halted", "pause.committed"],
    countsFrom: "halt.recorded",
    after: "paused",
    act: send("POST", (id) => `/sandboxes/${id}/pause`, { memory: false }),
  },
  {
    name: "resume",
    steps: ["resume.thawed", "resume.committed"],
    countsFrom: "resume.committed",
    before: "paused",
    after: "running",
    mayMake: 0,
    prepare: (home) => makePaused(home, true),
    act: send("POST", (id) => `/sandboxes/${id}/connect`, { timeout: 3600 }),
  },
  {
    name: "boot",
    steps: [
      "boot.mounted",
      ...LAUNCH,
      "boot.started",
      "boot.told",
      "boot.healthy",
      "resume.committed",
    ],
    countsFrom: "resume.committed",
    before: "paused",
    after: "running",
    mayMake: 0,
    prepare: (home) => makePaused(home, false),
    act: send("POST", (id) => `/sandboxes/${id}/connect`, { timeout: 3600 }),
  },
  {
    ...RUNNING,
    name: "snapshot",
    steps: [...COPY, "snapshot.committed"],
    countsFrom: "snapshot.committed",
    after: "running",
    act: send("POST", (id) => `/sandboxes/${id}/snapshots`, { name: "shot" }),
  },
  {
    ...RUNNING,
    name: "fork",
    steps: [
      ...COPY,
      "fork.copied",
      "create.intent",
      "launch.running",
      "create.committed",
      "fork.started",
      "fork.released",
    ],
    countsFrom: "create.intent",
    after: "running",
    mayMake: 2,
    act: send("POST", (id) => `/sandboxes/${id}/fork`, { count: 2, timeout: 3600 }),
  },
  {
    ...RUNNING,
    name: "kill",
    steps: KILL,
    countsFrom: "kill.intent",
    after: "gone",
    act: send("DELETE", (id) => `/sandboxes/${id}`),
  },
  {
    name: "kill of a paused one",
    steps: KILL,
    countsFrom: "kill.intent",
    before: "paused",
    after: "gone",
    mayMake: 0,
    prepare: (home) => makePaused(home, false),
    act: send("DELETE", (id) => `/sandboxes/${id}`),
  },
  {
    ...RUNNING,
    name: "end of its time",
    steps: ["kill.cut", "kill.intent", "removal.killed", "kill.removed", "kill.erased"],
    countsFrom: "kill.cut",
    after: "gone",
    prepare: (home) => makeKept(home, { timeout: 1 }),
    act: untilExpired,
  },
  {
    ...RUNNING,
    name: "pause at the end of its time",
    steps: ["pause.cut", "pause.frozen", "pause.committed"],
    countsFrom: "pause.cut",
    after: "paused",
    prepare: (home) => makeKept(home, { timeout: 1, autoPause: true }),
    act: untilExpired,
  },
  {
    ...RUNNING,
    name: "removal of a template",
    steps: ["template.erased", "template.removed"],
    countsFrom: "template.erased",
    isAnsweredFirst: true,
    after: "running",
    prepare: async (home) => {
      const id = await makeKept(home);
      await home.call("POST", `/sandboxes/${id}/snapshots`, { name: "old" });
      return id;
    },
    act: send("DELETE", () => "/templates/old"),
  },
  ...volumeOperations(makeKept),
];

/** Of a snapshot with memory, in the order in which they come; the last one commits it. */
export const MEMORY_STEPS: readonly StepName[] = [
  "checkpoint.saved",
  "copy.copied",
  "layer.renamed",
  "snapshot.committed",
];

/** Of a move of memory to disk, in the order in which they come; `halt.recorded` commits it. */
export const MOVE_STEPS: readonly StepName[] = [
  "layer.begun",
  "checkpoint.saved",
  "layer.renamed",
  "move.saved",
  "halt.recorded",
  "halt.killed",
  "halt.unmounted",
  "halt.synced",
  "halt.cleared",
  "move.committed",
];

/** Of the start that goes on from it. */
export const RESTORE_STEPS: readonly StepName[] = [
  "boot.mounted",
  "launch.prepared",
  "restore.begun",
  "launch.running",
  "launch.recorded",
  "restore.started",
  "resume.committed",
];

/** Of a restore from an encrypted image, whose memory is removed then. */
export const SEAL_STEPS: readonly StepName[] = ["restore.begun", "launch.running", "image.wiped"];

/** The same on a home whose file system shares blocks. */
export const CLONES: readonly Operation[] = [
  {
    ...RUNNING,
    name: "snapshot by sharing blocks",
    steps: [...CLONE, "snapshot.committed"],
    countsFrom: "snapshot.committed",
    after: "running",
    act: send("POST", (id) => `/sandboxes/${id}/snapshots`, { name: "shot" }),
  },
  {
    ...RUNNING,
    name: "fork by sharing blocks",
    steps: [
      ...CLONE,
      "fork.copied",
      "create.intent",
      "disk.restored",
      "boot.mounted",
      "launch.running",
      "create.committed",
      "fork.started",
      "fork.released",
    ],
    countsFrom: "create.intent",
    after: "running",
    mayMake: 2,
    act: send("POST", (id) => `/sandboxes/${id}/fork`, { count: 2, timeout: 3600 }),
  },
];

/** A create that takes a waiting sandbox over, and the one that then begins to wait. */
export const POOLED: Operation = {
  name: "create from the pool",
  steps: ["claim.taken", "claim.thawed", "claim.healthy", "create.committed", "pool.frozen"],
  countsFrom: "create.committed",
  before: "gone",
  after: "gone",
  mayMake: 1,
  async prepare(home) {
    while (!(await hasPooled(home.path))) await new Promise((done) => setTimeout(done, POLL_MS));
    // It is offered a moment after it stands still.
    await new Promise((done) => setTimeout(done, POLL_MS));
    return "none";
  },
  async act(home) {
    await make(home).catch(() => "none");
    // The next one is started after the answer, where the service lives on.
    await home.hit();
    return undefined;
  },
};

/** A snapshot of a sandbox whose layers are as many as may be. */
export const SQUASH: Operation = {
  ...RUNNING,
  name: "snapshot of a long chain",
  steps: [
    "layer.durable",
    "squash.begun",
    "squash.listed",
    "squash.cleared",
    "squash.copied",
    "squash.done",
    "snapshot.committed",
  ],
  countsFrom: "snapshot.committed",
  after: "running",
  act: send("POST", (id) => `/sandboxes/${id}/snapshots`, { name: "shot" }),
};

/** What the first start of a home passes that is given a store. */
export const STORE_STEPS: readonly StepName[] = ["store.formatted", "store.made", "store.mounted"];

/** The steps of a start that finds something to do. */
export const RECOVERY: readonly StepName[] = ["adopt.found", "removal.killed", "discard.removed"];

/** What the service says became of it. */
export async function fateOf(home: FaultHome, id: string): Promise<Fate> {
  const found = (await listAll(home)).find(({ sandboxID }) => sandboxID === id);
  if (found === undefined) return "gone";
  return found.state === "paused" ? "paused" : "running";
}

/** What a first start passes, until its first sandbox runs. */
export const FIRST_STEPS: readonly StepName[] = [
  "daemon.begun",
  "daemon.copied",
  "daemon.compiled",
  "daemon.renamed",
  "layer.begun",
  "layer.synced",
  "layer.renamed",
  "layer.durable",
  "create.intent",
  "container.folder",
  "launch.prepared",
  "launch.running",
  "create.started",
  "create.committed",
];

/** Of snapshots, forks and pauses of sandboxes that are Pods, in a registry of images. */
export const IMAGE_STEPS = {
  take: ["image.recorded", "image.pushed", "image.committed"],
  fork: ["fork.imaged"],
  remove: ["image.removing", "image.removed", "image.erased"],
  pause: ["pod.pausing", "pod.stopped", "pod.paused", "pod.parked"],
  resume: ["pod.resuming", "pod.resumed"],
} as const satisfies Readonly<Record<string, readonly StepName[]>>;

/** Of an export, which ends with its process. */
export const EXPORT_STEPS: readonly StepName[] = ["export.written"];
