/**
 * What a home holds beside what its database says: containers, disks, cgroups, id ranges, layers
 * and volumes, as two values that are equal when nothing is lost and nothing is left over.
 */

import { readdir, readFile } from "node:fs/promises";
import { basename, dirname, join } from "node:path";
import { DatabaseSync } from "node:sqlite";
import { z } from "../../../src/common/schema.ts";
import { pausedByKernel } from "../../../src/engine/gvisor/relay.ts";
import { openProcessGroup } from "../../../src/engine/oci/process-group.ts";
import { takeCensus, type Census } from "../census.ts";

const rowSchema = z.object({
  sandboxId: z.string(),
  state: z.string(),
  hasMemory: z.boolean(),
  volumeMounts: z.array(z.object({ volumeId: z.string() })),
});
const buildSchema = z.object({
  status: z.string(),
  layers: z.array(z.object({ root: z.string() })),
  disk: z.object({ image: z.string() }).optional(),
});
const LAYER_PATTERN = /^[0-9a-f]{8}-/;

/** Each list sorted. */
interface Truth {
  readonly integrity: readonly string[];
  /** With a container's folder and a range of ids. */
  readonly containers: readonly string[];
  readonly claims: readonly string[];
  /** With a mounted disk, processes and cgroups: all but those without memory. */
  readonly mounts: readonly string[];
  readonly disks: readonly string[];
  readonly cgroups: readonly string[];
  readonly populated: readonly string[];
  readonly layers: readonly string[];
  /** Disks of snapshots that share blocks. */
  readonly copies: readonly string[];
  readonly volumes: readonly string[];
  /** Volumes with a disk that is mounted, and those with a device: all that a sandbox has. */
  readonly volumeMounts: readonly string[];
  readonly volumeDevices: readonly string[];
  /** Programs of ours outside of any container, besides the service. */
  readonly strays: readonly string[];
}

/** Where database and machine differ, one line each. */
export async function findLies(home: string, before: Census): Promise<readonly string[]> {
  const { said, found } = await readTruth(home, before);
  const [left, right] = [toLines(said), toLines(found)];
  return left.flatMap((line, index) =>
    line === right[index] ? [] : [`said ${line}`, `found ${right[index]}`],
  );
}

function toLines(truth: Truth): readonly string[] {
  const lines = Object.entries(truth).map(([name, values]) => `${name}: ${values.join(" ")}`);
  return lines.toSorted();
}

/** What the database says, and what is there that was not there before. */
async function readTruth(
  home: string,
  before: Census,
): Promise<{ readonly said: Truth; readonly found: Truth }> {
  const { rows, builds, volumes, integrity } = readStore(home);
  const all = rows.map(({ sandboxId }) => sandboxId).toSorted();
  const alive = rows
    .filter(({ state, hasMemory }) => state !== "paused" || hasMemory)
    .map(({ sandboxId }) => sandboxId)
    .toSorted();
  const onDisks = volumes.filter(({ sizeMb }) => sizeMb !== undefined);
  const used = onDisks
    .map(({ volumeId }) => volumeId)
    .filter((id) => rows.some((row) => row.volumeMounts.some(({ volumeId }) => volumeId === id)))
    .toSorted();
  const layers = builds.flatMap((build) =>
    build.layers.map(({ root }) => root.split("/")[0] ?? ""),
  );
  const named = [...new Set(layers)].filter((name) => LAYER_PATTERN.test(name)).toSorted();
  const states = rows.filter(({ state }) => !["running", "paused", "pooled"].includes(state));
  const unfinished = builds.filter(({ status }) => status !== "ready");
  return {
    said: {
      integrity: [
        "ok",
        "ok",
        ...states.map(({ state }) => state),
        ...unfinished.map(() => "build"),
      ],
      containers: all,
      claims: all,
      mounts: alive,
      disks: alive,
      cgroups: alive,
      populated: alive,
      layers: named,
      copies: builds
        .flatMap(({ disk }) => (disk ? [basename(dirname(disk.image))] : []))
        .toSorted(),
      volumes: volumes.map(({ volumeId }) => volumeId).toSorted(),
      volumeMounts: used,
      volumeDevices: used,
      strays: [],
    },
    found: { ...(await lookAround(home, before, alive)), integrity },
  };
}

/** Whether a sandbox waits, frozen or paused by a kernel of its own, to be taken. */
export async function hasPooled(home: string): Promise<boolean> {
  const { cgroups } = await takeCensus(home);
  const pooled = readStore(home).rows.filter(({ state }) => state === "pooled");
  const paused = pooled.map(async ({ sandboxId }) => isPausedByKernel(home, sandboxId));
  if ((await Promise.all(paused)).includes(true)) return true;
  const paths = cgroups.filter((path) =>
    pooled.some(({ sandboxId }) => basename(path) === sandboxId),
  );
  const files = ["cgroup.events", "freezer.state"];
  const texts = await Promise.all(
    paths.flatMap((path) =>
      files.map(async (name) => readFile(join(path, name), "utf8").catch(() => "")),
    ),
  );
  return texts.some((text) => /^frozen 1$|^FROZEN$/m.test(text));
}

/** False without such a kernel, and where it does not answer yet. */
async function isPausedByKernel(home: string, sandboxId: string): Promise<boolean> {
  const directory = join(home, "instances/serve/s", sandboxId);
  const group = pausedByKernel(openProcessGroup(sandboxId, directory), directory);
  return group.isFrozen().catch(() => false);
}

/** The sandboxes of the database that somebody was told of, sorted. */
export function rowsOf(home: string): readonly string[] {
  return readStore(home)
    .rows.filter(({ state }) => state !== "pooled")
    .map(({ sandboxId }) => sandboxId)
    .toSorted();
}

function readStore(home: string) {
  using state = new DatabaseSync(join(home, "state.db"), { readOnly: true });
  using logs = new DatabaseSync(join(home, "state.db-logs"), { readOnly: true });
  const records = (table: string) =>
    state
      .prepare(`SELECT record FROM ${table}`)
      .all()
      .map((row) => JSON.parse(String(row["record"])));
  const volumeSchema = z.object({ volumeId: z.string(), sizeMb: z.number().optional() });
  return {
    rows: z.array(rowSchema).parse(records("sandboxes")),
    builds: z.array(buildSchema).parse(records("builds")),
    volumes: z.array(volumeSchema).parse(records("volumes")),
    integrity: [checkIntegrity(state), checkIntegrity(logs)],
  };
}

function checkIntegrity(database: DatabaseSync): string {
  return String(database.prepare("PRAGMA integrity_check").get()?.["integrity_check"]);
}

async function lookAround(
  home: string,
  before: Census,
  alive: readonly string[],
): Promise<Omit<Truth, "integrity">> {
  const census = await takeCensus(home);
  const kernels = findKernels(census.processes);
  const withKernel = alive.filter((id) => kernels.some((line) => line.includes(id)));
  const cgroups = census.cgroups.filter((path) => !before.cgroups.includes(path));
  const ids = [...new Set(cgroups.map((path) => basename(path)))].toSorted();
  const inside = await populatedOf(cgroups);
  const mounts = census.mounts
    .filter((path) => path.startsWith(`${home}/`) && path !== join(home, "store"))
    .filter((path) => volumeOf(path) === undefined)
    // A home of a test may show the base template of the machine.
    .filter((path) => !path.startsWith(join(home, "layers/base-")))
    .map(idOf)
    // A kernel of its own has its files in two namespaces.
    .filter((id, index, all) => !withKernel.includes(id) || all.indexOf(id) === index)
    .toSorted();
  const volumeMounts = census.mounts.flatMap((path) => volumeOf(path) ?? []).toSorted();
  const hasLoops = (await list("/sys/block")).some((name) => name.startsWith("loop"));
  const layers = await list(join(home, "layers"));
  return {
    containers: (await list(join(home, "instances/serve/s"))).toSorted(),
    claims: census.idClaims.map(idOf).toSorted(),
    mounts,
    // In some containers nobody can see which devices there are.
    disks: hasLoops
      ? census.loopDevices
          .filter((path) => path !== join(home, "store.img") && volumeOf(path) === undefined)
          .map(idOf)
          .toSorted()
      : mounts,
    cgroups: ids,
    populated: ids.filter((id) => inside.has(id)),
    layers: layers.filter((name) => LAYER_PATTERN.test(name)).toSorted(),
    copies: (await list(join(home, "store/snapshots"))).toSorted(),
    volumes: [
      ...(await list(join(home, "volumes"))),
      ...(await list(join(home, "volume-disks"))),
    ].toSorted(),
    volumeMounts,
    volumeDevices: hasLoops
      ? census.loopDevices.flatMap((path) => volumeOf(path) ?? []).toSorted()
      : volumeMounts,
    strays: findStrays(
      census.processes.filter(
        (line) => !(kernels.includes(line) && withKernel.some((id) => line.includes(id))),
      ),
      home,
    ),
  };
}

/** The volume whose folder a path is in, beside the home's own or in its store. */
function volumeOf(path: string): string | undefined {
  return /\/(?:volume-disks|store\/volumes)\/([0-9a-f-]{36})/.exec(path)?.[1];
}

/** The sandbox whose folder a path is in. */
function idOf(path: string): string {
  return /\/(?:s|disks)\/([a-z0-9]+)/.exec(path)?.[1] ?? path;
}

async function populatedOf(cgroups: readonly string[]): Promise<ReadonlySet<string>> {
  const found = new Set<string>();
  for (const path of cgroups) {
    const text = await readFile(join(path, "cgroup.procs"), "utf8").catch(() => "");
    if (text !== "") found.add(basename(path));
  }
  return found;
}

/** The processes of a home's sandbox, as the host counts, with the time at which each one began. */
export async function processesOf(home: string, sandboxId: string): Promise<readonly string[]> {
  const census = await takeCensus(home);
  const path = census.cgroups.find((candidate) => basename(candidate) === sandboxId);
  if (path === undefined) return [];
  const pids = (await readFile(join(path, "cgroup.procs"), "utf8")).trim().split("\n");
  const stamps = await Promise.all(
    pids.map(async (pid) => {
      const text = await readFile(`/proc/${pid}/stat`, "utf8").catch(() => "");
      return `${pid} ${text.slice(text.lastIndexOf(")") + 2).split(" ")[19]}`;
    }),
  );
  return stamps.toSorted();
}

async function list(directory: string): Promise<string[]> {
  return readdir(directory).catch(() => []);
}

/** Programs of sandboxes with a kernel of their own, each with the sandbox's id in its arguments. */
function findKernels(processes: readonly string[]): string[] {
  return processes.filter((line) => /\brunsc-(?:gofer|sandbox) |\/sentry-relay\.pl /.test(line));
}

/** A running service has one guardian; any other process besides is left over. */
function findStrays(processes: readonly string[], home: string): string[] {
  const ours = processes.filter((line) => line.includes(home) && !line.includes(" serve "));
  const guardian = ours.find((line) => line.includes("/guardian.sh "));
  return ours.filter((line) => line !== guardian);
}
