/** The room of sandboxes: what control and gateway may ask, and what must end with it. */

import { mkdir } from "node:fs/promises";
import { join } from "node:path";
import type { CleanUpFailure } from "../common/clean-up.ts";
import type { Clock } from "../common/clock.ts";
import { createGate } from "../common/concurrency.ts";
import type { Logger } from "../common/log.ts";
import { asOperation } from "../common/operation.ts";
import { quoteUntrusted } from "../common/untrusted-text.ts";
import type { ContainerLimits, Engine } from "../engine/engine.ts";
import type { LogLine, Store } from "../store/store.ts";
import { DEFAULT_TEAM } from "../store/team.ts";
import { adoptSandboxes } from "./adopt.ts";
import type { BuiltInTemplate, TemplatesOptions } from "./built-ins.ts";
import { countByTeam, countMembers, type SandboxCount } from "./count.ts";
import { createSandbox } from "./create-sandbox.ts";
import { findMember, requireMember, type Domain, type Member } from "./domain.ts";
import { expireDue, nextExpiry } from "./expire-sandboxes.ts";
import { startExpiry } from "./expiry.ts";
import { forkSandbox, type ForkOptions, type ForkResult } from "./fork-sandbox.ts";
import { killSandbox } from "./kill-sandbox.ts";
import {
  describeMember,
  listSandboxes,
  type ListQuery,
  type SandboxList,
} from "./list-sandboxes.ts";
import { endpoints, locate } from "./locate.ts";
import { startLogBook, type LogQuery } from "./log-book.ts";
import type { Page } from "./paging.ts";
import { pauseSandbox } from "./pause-sandbox.ts";
import { startPool } from "./pool.ts";
import { containersDirectory, reclaim, forgetUnfinished, type ReclaimOptions } from "./reclaim.ts";
import { endMember } from "./registry-entry.ts";
import {
  connectSandbox,
  resumeSandbox,
  type Connected,
  type ResumeOptions,
} from "./resume-sandbox.ts";
import { createCleanupRetries } from "./retry-cleanup.ts";
import type { Endpoint } from "./run.ts";
import type { CreateOptions, Sandbox } from "./sandbox.ts";
import { openSecrets } from "./secrets.ts";
import { createSnapshot, listSnapshots, type Snapshot, type SnapshotQuery } from "./snapshots.ts";
import { createTeamQuota } from "./team-quota.ts";
import { createTemplates, registerBuiltIns, type Templates } from "./templates.ts";
import { refresh, setTimeoutOf } from "./timeout.ts";
import { updateNetwork, type EgressRules } from "./update-network.ts";
import { startUsageMeter, type Sample, type SampleRange } from "./usage-meter.ts";
import {
  createVolume,
  finishVolumes,
  getVolume,
  listVolumes,
  removeVolume,
  type Volume,
} from "./volumes.ts";
import { wakeableSandboxes, wakeSandbox, type WakeRequest, type WakeableSandbox } from "./wake.ts";

/** Sandboxes ended at once when the room closes; each is a few processes and mounts. */
const ENDS_AT_ONCE = 8;

export interface SandboxesOptions {
  readonly engine: Engine;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  /** Absolute path of the home. */
  readonly home: string;
  /** Name of this instance; no other living one of the home has it. */
  readonly owner: string;
  /** Of each sandbox. */
  readonly limits: ContainerLimits;
  readonly maxSandboxes: number;
  /** Of each team; undefined for what the shares of the other teams leave. */
  readonly maxSandboxesPerTeam?: number | undefined;
  /** Teams of keys that are not in the store. */
  readonly givenTeams: readonly string[];
  /** Sandboxes that are kept started for creates to come; they count for no limit. */
  readonly poolSize: number;
  readonly builtIns: readonly BuiltInTemplate[];
  readonly fallbacks: Readonly<Record<string, string>>;
  /** Built-ins that another service of this home may offer, but neither they nor their snapshots here. */
  readonly withheld: readonly string[];
  /** What happens to the sandboxes when the room closes. */
  readonly onExit: "kill" | "leave";
}

/** What a team may ask: another team's sandboxes, templates and volumes do not exist for it. */
export interface TeamSandboxes {
  readonly templates: Templates;
  create(options: CreateOptions, signal: AbortSignal): Promise<Sandbox>;
  /** @throws SandboxError not_found. */
  get(sandboxId: string): Sandbox;
  list(query: ListQuery): SandboxList;
  kill(sandboxId: string): Promise<void>;
  setTimeout(sandboxId: string, seconds: number): Promise<void>;
  refresh(sandboxId: string, seconds: number): Promise<void>;
  connect(sandboxId: string, options: ResumeOptions): Promise<Connected>;
  resume(sandboxId: string, options: ResumeOptions): Promise<Sandbox>;
  pause(sandboxId: string, keepsMemory: boolean): Promise<void>;
  snapshot(sandboxId: string, name: string | undefined): Promise<Snapshot>;
  fork(sandboxId: string, options: ForkOptions): Promise<ForkResult[]>;
  updateNetwork(sandboxId: string, rules: EgressRules): Promise<void>;
  /** @throws SandboxError invalid_argument for a bad name, or one that is taken. */
  createVolume(name: string): Promise<Volume>;
  listVolumes(): Volume[];
  /** @throws SandboxError invalid_argument for no identifier, not_found. */
  getVolume(volumeId: string): Volume;
  /** @throws SandboxError as `getVolume`, and failed_precondition while a sandbox has it. */
  removeVolume(volumeId: string): Promise<void>;
  listSnapshots(query: SnapshotQuery): Page<Snapshot>;
  /** Also of a sandbox that is gone, while its log is kept. */
  logs(query: Omit<LogQuery, "team">): LogLine[];
  /**
   * Oldest first; empty for a sandbox that is gone.
   * @throws SandboxError not_found for one that never was.
   */
  metrics(sandboxId: string, range: SampleRange): Sample[];
  latestMetric(sandboxId: string): Sample | undefined;
}

/** The room of sandboxes: itself as the first team sees it, and what the gateway asks. */
export interface Sandboxes extends TeamSandboxes, AsyncDisposable {
  of(team: string): TeamSandboxes;
  /** Of all teams. */
  count(): SandboxCount;
  /** Undefined unless it runs here and now. */
  locate(sandboxId: string): Endpoint | undefined;
  endpoints(): Endpoint[];
  /**
   * The sandbox that a request wants to enter, woken for it where its creator wished so.
   * @throws SandboxError not_found unless it may be woken, permission_denied without the right
   * token, failed_precondition when it does not come to rest, resource_exhausted when too many run.
   */
  wake(knock: WakeRequest): Promise<Endpoint>;
  /** Those that traffic may wake. */
  sleepers(): WakeableSandbox[];
}

/**
 * Adopts what this instance left running, then reclaims in the background what dead ones left.
 */
export async function startSandboxes(options: SandboxesOptions): Promise<Sandboxes> {
  const { store, home, owner, clock, log, engine } = options;
  const closing = new AbortController();
  const layersDirectory = join(home, "layers");
  const volumesDirectory = join(home, "volumes");
  await mkdir(volumesDirectory, { recursive: true, mode: 0o700 });
  const directory = containersDirectory(home, owner);
  await mkdir(layersDirectory, { recursive: true, mode: 0o700 });
  await mkdir(directory, { recursive: true, mode: 0o700 });
  const members = new Map<string, Member>();
  const { pending, track } = createTrack();
  /** It never rejects; the end of the room waits for an attempt under way. */
  const later = (subject: string, work: () => Promise<void>) =>
    void track(createCleanupRetries({ clock, log, closing: closing.signal }, subject, work));

  const team = DEFAULT_TEAM;
  const teams = () => [...store.keys.teams(), ...options.givenTeams];
  const templateOptions = { ...options, retry: later, layersDirectory, team };
  await registerBuiltIns(templateOptions);
  const domain: Domain = {
    ...options,
    team,
    meter: startUsageMeter({ clock, log, members }),
    logBook: startLogBook({ store, clock, log }),
    secrets: await openSecrets(home, store),
    templates: createTemplates(templateOptions),
    directory,
    layersDirectory,
    volumesDirectory,
    members,
    closing: closing.signal,
    noteExpiry: () => expiry.note(),
    takeWarm: (wish) => pool.take(wish),
    retry: later,
    places: createTeamQuota({ ...options, teams, count: () => countByTeam(members) }),
    used: { atMs: 0 },
    forking: new Set(),
  };
  forgetUnfinished(store, owner);
  await adoptSandboxes(domain);
  await finishVolumes(domain);
  const expiry = startExpiry({
    clock,
    log,
    next: () => nextExpiry(domain),
    expire: () => expireDue(domain),
  });
  const pool = startPool(domain, options.poolSize);
  // Its faults are logged inside; it is tracked, so the end of the room waits for it.
  const onFailure = ({ kind, name, error }: CleanUpFailure) =>
    log.error({ op: "reclaim", kind, name: quoteUntrusted(name), err: error }, "leftover stays");
  const { signal } = closing;
  const leftovers = { engine, store, home, self: owner, takesKept: false, onFailure, signal };
  void track(reclaimAtStart(domain, leftovers));

  return {
    ...toOperations(domain, track),
    of: (name) => toOperations(asTeam(domain, templateOptions, name), track),
    count: () => countMembers(domain),
    locate: (sandboxId) => locate(domain, sandboxId),
    endpoints: () => endpoints(domain),
    wake: (knock) => track(wakeSandbox(domain, knock)),
    sleepers: () => wakeableSandboxes(domain),
    async [Symbol.asyncDispose]() {
      closing.abort();
      await expiry[Symbol.asyncDispose]();
      await domain.meter[Symbol.asyncDispose]();
      await Promise.allSettled(pending);
      await pool[Symbol.asyncDispose]();
      await closeMembers(domain, options.onExit);
      domain.logBook[Symbol.dispose]();
    },
  };
}

/** The room on behalf of a team. */
function asTeam(domain: Domain, options: TemplatesOptions, team: string): Domain {
  return { ...domain, team, templates: createTemplates({ ...options, team }) };
}

/** Runs work that must be over before the room is. */
type Track = <T>(work: Promise<T>) => Promise<T>;

function createTrack(): { readonly pending: ReadonlySet<Promise<unknown>>; readonly track: Track } {
  const pending = new Set<Promise<unknown>>();
  return {
    pending,
    async track(work) {
      pending.add(work);
      try {
        return await work;
      } finally {
        pending.delete(work);
      }
    },
  };
}

function toOperations(domain: Domain, track: Track): TeamSandboxes {
  const { team } = domain;
  return {
    templates: domain.templates,
    create: (request, signal) => track(createSandbox(domain, request, signal)),
    get: (sandboxId) => describeMember(domain, requireMember(domain, sandboxId)),
    list: (query) => listSandboxes(domain, query),
    kill: (sandboxId) => killSandbox(domain, sandboxId),
    setTimeout: (sandboxId, seconds) => setTimeoutOf(domain, sandboxId, seconds),
    refresh: (sandboxId, seconds) => refresh(domain, sandboxId, seconds),
    connect: (sandboxId, request) => track(connectSandbox(domain, sandboxId, request)),
    resume: (sandboxId, request) => track(resumeSandbox(domain, sandboxId, request)),
    pause: (sandboxId, keepsMemory) => track(pauseSandbox(domain, sandboxId, keepsMemory)),
    snapshot: (sandboxId, name) => track(createSnapshot(domain, sandboxId, name)),
    fork: (sandboxId, request) => track(forkSandbox(domain, sandboxId, request)),
    updateNetwork: (sandboxId, rules) => updateNetwork(domain, sandboxId, rules),
    createVolume: (name) => track(createVolume(domain, name)),
    listVolumes: () => listVolumes(domain),
    getVolume: (volumeId) => getVolume(domain, volumeId),
    removeVolume: (volumeId) => track(removeVolume(domain, volumeId)),
    listSnapshots: (query) => listSnapshots(domain, query),
    logs: (query) => domain.logBook.read({ ...query, team }),
    metrics(sandboxId, range) {
      domain.logBook.requireKnown({ sandboxId, team });
      return domain.meter.read(sandboxId, range);
    },
    latestMetric: (sandboxId) => findMember(domain, sandboxId) && domain.meter.latest(sandboxId),
  };
}

async function reclaimAtStart(domain: Domain, options: ReclaimOptions): Promise<void> {
  try {
    const reclaimed = await asOperation("reclaim", () => reclaim(options));
    if (reclaimed.length > 0) domain.log.warn({ op: "reclaim", reclaimed }, "removed leftovers");
  } catch (error) {
    if (domain.closing.aborted) return;
    domain.log.error({ op: "reclaim", err: error }, "leftovers could not be removed");
  }
}

async function closeMembers(domain: Domain, onExit: "kill" | "leave"): Promise<void> {
  const members = [...domain.members.values()];
  if (onExit === "leave") {
    for (const member of members) {
      member.run?.end();
      member.follower?.[Symbol.dispose]();
    }
    return;
  }
  const gate = createGate(ENDS_AT_ONCE);
  const ends = members.map((member) => gate.run(() => endMember(domain, member, "service end")));
  for (const end of await Promise.allSettled(ends)) {
    if (end.status === "rejected") {
      domain.log.error({ op: "sandbox.end", err: end.reason }, "sandbox left traces");
    }
  }
}
