/** What all operations on sandboxes share, and the rules by which they take turns. */

import assert from "node:assert";
import type { Clock } from "../common/clock.ts";
import { SandboxError } from "../common/errors.ts";
import type { Logger } from "../common/log.ts";
import { asChange } from "../common/operation.ts";
import type { Container, ContainerLimits, Engine } from "../engine/engine.ts";
import type { SandboxRecord, Store } from "../store/store.ts";
import { networkSchema } from "../wire/control.ts";
import { sandboxInTransition, sandboxMissing, type Transition } from "../wire/messages.ts";
import type { CreateInput } from "./create-plan.ts";
import type { LogBook } from "./log-book.ts";
import type { PooledContainer } from "./pool.ts";
import type { CleanupRetries } from "./retry-cleanup.ts";
import { beginRun, type Run } from "./run.ts";
import type { Secrets } from "./secrets.ts";
import type { TeamQuota } from "./team-quota.ts";
import type { Templates } from "./templates.ts";
import type { UsageMeter } from "./usage-meter.ts";

/** A change may have to wait for others; more rounds than this mean that they never end. */
const MAX_WAITS = 8;

export interface Domain extends CleanupRetries {
  readonly engine: Engine;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly logBook: LogBook;
  readonly meter: UsageMeter;
  readonly secrets: Secrets;
  readonly templates: Templates;
  /** The name under which rows and folders belong to this instance. */
  readonly owner: string;
  /** On whose behalf: what is another team's is not found. */
  readonly team: string;
  /** Folder of the containers' folders. */
  readonly directory: string;
  /** Folder of template and snapshot layers. */
  readonly layersDirectory: string;
  readonly volumesDirectory: string;
  readonly limits: ContainerLimits;
  /** Sandboxes at once, the paused ones included: they keep their memory. */
  readonly maxSandboxes: number;
  readonly members: Map<string, Member>;
  /** Fires when the room closes. */
  readonly closing: AbortSignal;
  /** Tells that an expiry may now be nearer than before. */
  noteExpiry(): void;
  /** A sandbox that was started before and fits, the caller's from then on; undefined for none. */
  takeWarm(wish: CreateInput): PooledContainer | undefined;
  /** Who may have one more, for all teams. */
  readonly places: TeamQuota;
  /** When somebody last had something to do with a running sandbox, in Unix milliseconds. */
  readonly used: { atMs: number };
  /** Builds whose forks are being started: they are not let go meanwhile. */
  readonly forking: Set<string>;
}

/** A sandbox that lives here. Its fields change only inside `changeState` and `endMember`. */
export interface Member {
  readonly container: Container;
  record: SandboxRecord;
  phase: "running" | "paused" | Transition;
  /** Settles, without a fault, when the change under way is over. */
  change: Promise<void> | undefined;
  /** Set once its end was decided; it is then gone for everyone but those who wait for the end. */
  ending: Promise<void> | undefined;
  run: Run | undefined;
  /** Reads the daemon's log; undefined until it was first needed. */
  follower: Disposable | undefined;
}

/** A sandbox of the team; undefined for one of another, as for one that never was. */
export function findMember({ members, team }: Domain, sandboxId: string): Member | undefined {
  const member = members.get(sandboxId);
  return member?.record.team === team ? member : undefined;
}

/** @throws SandboxError not_found when it never was, is over or is about to be. */
export function requireMember(domain: Domain, sandboxId: string): Member {
  const member = findMember(domain, sandboxId);
  if (member === undefined || member.ending !== undefined) {
    throw new SandboxError("not_found", sandboxMissing(sandboxId));
  }
  return member;
}

/** @throws SandboxError not_found when unknown, failed_precondition while it is being killed. */
export function requireLiving(domain: Domain, sandboxId: string): Member {
  const member = findMember(domain, sandboxId);
  if (member === undefined) throw new SandboxError("not_found", sandboxMissing(sandboxId));
  if (member.ending !== undefined) throw inTransition(sandboxId, "killing");
  return member;
}

export function inTransition(sandboxId: string, transition: Transition): SandboxError {
  return new SandboxError("failed_precondition", sandboxInTransition(sandboxId, transition));
}

/**
 * Runs `act` once no change is under way, before anybody else can begin one. The member may have
 * become anything meanwhile, also over: `act` looks anew.
 * @throws SandboxError unavailable when change follows change without end.
 */
export async function whenSettled<T>(member: Member, act: () => T | Promise<T>): Promise<T> {
  for (let round = 0; round < MAX_WAITS; round += 1) {
    if (member.change === undefined) return act();
    await member.change;
  }
  throw new SandboxError("unavailable", `sandbox ${member.record.sandboxId} stays busy`);
}

/**
 * Makes one change of state. Nobody else makes one meanwhile; a fault leaves the old phase.
 * `work` returns the new phase.
 */
export async function changeState(
  member: Member,
  during: Transition,
  work: () => Promise<"running" | "paused">,
): Promise<void> {
  assert(member.change === undefined);
  const before = member.phase;
  const { promise, resolve } = Promise.withResolvers<void>();
  member.change = promise;
  member.phase = during;
  let after = before;
  try {
    // An error that nobody caught must not leave the sandbox busy for ever.
    after = await asChange(`sandbox.${during}`, work);
  } finally {
    member.phase = after;
    member.change = undefined;
    resolve();
  }
}

/** Writes changed fields, durably. */
export function updateRecord(
  domain: Domain,
  member: Member,
  changes: Partial<SandboxRecord>,
): void {
  const record = { ...member.record, ...changes };
  domain.store.sandboxes.put(record);
  member.record = record;
}

/** What has happened already counts, also where it could not be written: that is done later. */
export function noteRecord(domain: Domain, member: Member, changes: Partial<SandboxRecord>): void {
  try {
    updateRecord(domain, member, changes);
  } catch (error) {
    member.record = { ...member.record, ...changes };
    const { sandboxId } = member.record;
    domain.log.error({ op: "sandbox.record", sandboxId, err: error }, "not written yet");
    domain.retry(`record of ${sandboxId}`, async () => {
      const isThere = domain.members.get(sandboxId) === member && member.ending === undefined;
      if (isThere) domain.store.sandboxes.put(member.record);
    });
  }
}

/** Opens the sandbox for connections. */
export function openRun(domain: Domain, container: Container, record: SandboxRecord): Run {
  const { sandboxId, isSecured, isPrivate, network } = record;
  const { maskRequestHost: maskedHost, httpsPorts = [] } = networkSchema.parse(network ?? {});
  domain.meter.note();
  return beginRun(container, {
    sandboxId,
    accessToken: isSecured ? domain.secrets.accessToken(sandboxId) : undefined,
    trafficToken: isPrivate ? domain.secrets.trafficToken(sandboxId) : undefined,
    maskedHost,
    httpsPorts,
  });
}
