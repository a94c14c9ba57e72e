/** The sandbox registry: what control and gateway may ask, and what must end with it. */

import { mkdir } from "node:fs/promises";
import { dirname, join } from "node:path";
import type { Clock } from "../common/clock.ts";
import { createGate, createTrack } from "../common/concurrency.ts";
import type { SandboxError } from "../common/errors.ts";
import type { Logger } from "../common/log.ts";
import type { ContainerLimits, Engine } from "../engine/engine.ts";
import type { Trust } from "../engine/templates/trust.ts";
import { DEFAULT_TEAM, type Store } from "../store/store.ts";
import { tellChangedLayers } from "./builds/changed-layers.ts";
import { SNAPSHOT_DISKS } from "./builds/layer-folders.ts";
import type { Folders, History, Registry, SandboxEntry, Services, Tenant } from "./context.ts";
import { startPool, type Pool, type PoolShare } from "./create/pool.ts";
import { startDiskWatch } from "./disk-watch.ts";
import { startExpiry } from "./expiry.ts";
import { countByTeam, countSandboxes, type SandboxCount } from "./list-sandboxes.ts";
import { startLogBook } from "./logs/log-book.ts";
import { startDiskMoves, type PauseToDisk } from "./pause/pause-to-disk.ts";
import {
  endpoints,
  findEntryFault,
  locate,
  stoppedSandboxes,
  wakeSandbox,
  type StoppedSandbox,
  type WakeRequest,
} from "./pause/wake.ts";
import { adoptSandboxes } from "./reclaim/adopt.ts";
import { discard } from "./reclaim/discard.ts";
import { expireDue, nextExpiry } from "./reclaim/end-sandbox.ts";
import { containersDirectory } from "./reclaim/instance-folder.ts";
import { forgetUnfinished } from "./reclaim/instance-rows.ts";
import { reclaimAtStart } from "./reclaim/reclaim-at-start.ts";
import { endEntry } from "./registry.ts";
import { createCleanupRetries } from "./retry-cleanup.ts";
import type { Endpoint } from "./run.ts";
import { createTeamQuota } from "./team-quota.ts";
import { toOperations, type RegistryContext, type TeamSandboxes } from "./team-sandboxes.ts";
import { openBuilding } from "./template-builds/open-building.ts";
import type { BuildRules } from "./template-builds/step-sandbox.ts";
import type { Uploads } from "./template-builds/uploads.ts";
import type { BuiltInTemplate, TemplatesOptions } from "./templates/built-ins.ts";
import { createTemplates, registerBuiltIns } from "./templates/templates.ts";
import { rebaseRuns } from "./timeout.ts";
import { startUsageMeter } from "./usage-meter.ts";
import { startVolumeDisks, type VolumeDisksOptions } from "./volumes/volume-disks.ts";
import { openVolume, type VolumeFiles } from "./volumes/volume-files.ts";
import { finishVolumes } from "./volumes/volumes.ts";
import { createWatchList } from "./watch-list.ts";

interface SandboxesOptions {
  readonly engine: Engine;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  /** Absolute path of the home. */
  readonly home: string;
  /** Name of this instance; no other running one of the home has it. */
  readonly owner: string;
  /** Of each sandbox. */
  readonly limits: ContainerLimits;
  readonly maxSandboxes: number;
  /** Of each team; undefined for what the shares of the other teams leave. */
  readonly maxSandboxesPerTeam?: number | undefined;
  /** Teams of keys that are not in the store. */
  readonly givenTeams: readonly string[];
  /** Sandboxes of `base` that are kept started for creates to come; they count for no limit. */
  readonly poolSize: number;
  /** The same of other templates. */
  readonly poolShares?: readonly PoolShare[] | undefined;
  /** Of the disks of new volumes; undefined for volumes that are folders. */
  readonly volumes?: VolumeDisksOptions["volumes"];
  /** When the memory of paused sandboxes moves to disk; undefined for never. */
  readonly pauseToDisk?: PauseToDisk | undefined;
  /** What every sandbox gets of this machine's certificates, and variables of all its processes. */
  readonly trust?: Trust | undefined;
  readonly environment?: Readonly<Record<string, string>> | undefined;
  /** What sandboxes of template builds may reach; all that others may, by default. */
  readonly buildNetwork?: BuildRules["buildNetwork"] | undefined;
  /** How builds fetch images; undefined for a service that fetches none. */
  readonly images?: BuildRules["images"];
  readonly builtIns: readonly BuiltInTemplate[];
  readonly fallbacks: Readonly<Record<string, string>>;
  /** Built-ins that another service of this home may offer, but neither they nor their snapshots here. */
  readonly withheld: readonly string[];
  /** What happens to the sandboxes when the registry closes. */
  readonly onExit: "kill" | "leave";
}

/** What the service of a machine passes on as it is. */
export type PassedOptions = Pick<
  SandboxesOptions,
  "poolShares" | "images" | "buildNetwork" | "pauseToDisk" | "volumes"
>;

/** The sandbox registry: as the default team sees it, and what the gateway asks. */
export interface Sandboxes extends TeamSandboxes, AsyncDisposable {
  readonly uploads: Pick<Uploads, "receive">;
  of(team: string): TeamSandboxes;
  /** Of all teams. */
  count(): SandboxCount;
  /** Undefined unless it runs here and now. */
  locate(sandboxId: string): Endpoint | undefined;
  endpoints(): Endpoint[];
  /**
   * The endpoint that a request is for; a sandbox created with auto-resume is resumed for it.
   * @throws SandboxError not_found unless it may be woken, permission_denied without the right
   * token, failed_precondition when it does not come to rest, resource_exhausted when too many run.
   */
  wake(request: WakeRequest): Promise<Endpoint>;
  /** Why one that an earlier service left cannot be entered yet, for those who could enter it. */
  findEntryFault?(request: WakeRequest): SandboxError | undefined;
  /** Those that exist and cannot be entered now. */
  stopped(): StoppedSandbox[];
  openVolume(volumeId: string, token: string): VolumeFiles;
}

/**
 * Opens the registry: adopts what this instance left running, then reclaims in the background what
 * dead ones left.
 */
export async function startSandboxes(options: SandboxesOptions): Promise<Sandboxes> {
  const { store, home, owner, clock, log, engine } = options;
  const closing = new AbortController();
  const folders = await makeFolders(home, owner);
  const { directory, layersDirectory } = folders;
  const entries = new Map<string, SandboxEntry>();
  const { pending, track } = createTrack();
  const cleanUps = createCleanupRetries({ clock, log, closing: closing.signal, track });
  const teams = () => [...store.keys.teams(), ...options.givenTeams];
  const watches = createWatchList();
  const volumeDisks = startVolumeDisks({ ...options, closing: closing.signal, watches });
  const building = await openBuilding(options, { track, closing: closing.signal, ...cleanUps });
  const scope = { layersDirectory, team: DEFAULT_TEAM, pool: deferPool(() => pool) };
  const templateOptions = { ...options, ...cleanUps, ...building, ...scope };
  await registerBuiltIns(templateOptions);
  const context: RegistryContext = {
    ...options,
    team: DEFAULT_TEAM,
    meter: startUsageMeter({ clock, log, entries }),
    logBook: startLogBook({ store, clock, log }),
    ...building,
    templates: createTemplates(templateOptions),
    ...folders,
    volumeDisks,
    entries,
    closing: closing.signal,
    rescheduleExpiry: () => watches.note(),
    pool: scope.pool,
    ...cleanUps,
    quota: createTeamQuota({ ...options, teams, count: () => countByTeam(entries) }),
    ...emptyRegistry(),
  };
  forgetUnfinished(store, owner);
  const guard = await engine.guard?.({ directory: dirname(directory), rule: options.onExit });
  await adoptSandboxes(context);
  await finishVolumes(context);
  const next = () => nextRebased(context);
  const expiry = startExpiry({ clock, log, next, expire: () => expireDue(context) });
  const shares = [{ template: "base", size: options.poolSize }, ...(options.poolShares ?? [])];
  const pool = startPool(context, shares);
  const diskWatch = startDiskWatch(context, { leavesSandboxes: options.onExit === "leave" });
  const moves = startDiskMoves(context, options.pauseToDisk);
  watches.add(expiry, diskWatch, moves);
  // Their faults are logged inside; they are tracked, so closing waits for them.
  void track(reclaimAtStart(context, home));
  void track(tellChangedLayers(context));

  return {
    ...toOperations(context, track),
    uploads: building.runner.uploads,
    of: (name) => toOperations(asTeam(context, templateOptions, name), track),
    count: () => countSandboxes(context),
    locate: (sandboxId) => locate(context, sandboxId),
    endpoints: () => endpoints(context),
    wake: (request) => track(wakeSandbox(context, request)),
    findEntryFault: (request) => findEntryFault(context, request),
    stopped: () => stoppedSandboxes(context),
    openVolume: (volumeId, token) => openVolume(context, volumeId, token),
    async [Symbol.asyncDispose]() {
      closing.abort();
      for (const task of [watches, context.meter]) await task[Symbol.asyncDispose]();
      await Promise.allSettled(pending);
      await pool[Symbol.asyncDispose]();
      if (options.onExit === "leave") await moves.moveAll();
      await closeEntries(context, options.onExit);
      await volumeDisks[Symbol.asyncDispose]();
      await guard?.[Symbol.asyncDispose]();
      context.logBook[Symbol.dispose]();
    },
  };
}

function emptyRegistry(): Omit<Registry, "entries" | "rescheduleExpiry"> {
  return {
    unadopted: new Map(),
    lastUse: { atMs: -Infinity },
    activeCreates: new Map(),
    activeForkBuilds: new Set(),
  };
}

function nextRebased(context: RegistryContext): number | undefined {
  rebaseRuns(context);
  return nextExpiry(context);
}

/** The pool, which is started last, for those that are made before it. */
function deferPool(pool: () => Pool): Pick<Pool, "take" | "without"> {
  return {
    take: (input) => pool().take(input),
    without: (templateId, work) => pool().without(templateId, work),
  };
}

/** The same on behalf of a team. */
function asTeam(
  context: RegistryContext,
  options: TemplatesOptions,
  team: string,
): RegistryContext {
  return { ...context, team, templates: createTemplates({ ...options, team }) };
}

/** Makes the folders of the instance `owner`, and those of layers and volumes. */
async function makeFolders(
  home: string,
  owner: string,
): Promise<Omit<Folders, "copies" | "volumeDisks">> {
  const layersDirectory = join(home, "layers");
  const volumesDirectory = join(home, "volumes");
  const directory = containersDirectory(home, owner);
  for (const folder of [volumesDirectory, layersDirectory, directory])
    await mkdir(folder, { recursive: true, mode: 0o700 });
  // Made by the first snapshot that needs it.
  const disksDirectory = join(layersDirectory, SNAPSHOT_DISKS);
  return { home, directory, layersDirectory, disksDirectory, volumesDirectory };
}

/** Sandboxes ended at once when the registry closes; each is a few processes and mounts. */
const ENDS_AT_ONCE = 8;

/** Ends every sandbox, or leaves them running for the next start. */
async function closeEntries(
  context: Services & Tenant & Folders & History & Registry,
  onExit: "kill" | "leave",
): Promise<void> {
  const entries = [...context.entries.values()];
  if (onExit === "leave") {
    for (const entry of entries) {
      entry.run?.end();
      entry.follower?.[Symbol.dispose]();
    }
    return;
  }
  // Rows without an entry: of sandboxes that could not be adopted, or not be removed.
  const others = context.store.sandboxes
    .ofOwner(context.owner)
    .filter(({ sandboxId }) => !context.entries.has(sandboxId));
  const gate = createGate(ENDS_AT_ONCE);
  const ends = [
    ...entries.map((entry) => gate.run(() => endEntry(context, entry, "service end"))),
    ...others.map((record) => gate.run(() => discard(context, record, "service end"))),
  ];
  for (const end of await Promise.allSettled(ends)) {
    if (end.status === "rejected") {
      context.log.error({ op: "sandbox.end", err: end.reason }, "sandbox left traces");
    }
  }
}
