/** Brings a paused sandbox back to life, or makes sure that a running one lives long enough. */

import { randomUUID } from "node:crypto";
import { SandboxError, toSandboxError } from "../common/errors.ts";
import { step } from "../common/steps.ts";
import type { SandboxRecord } from "../store/store.ts";
import { sandboxAlreadyRunning, sandboxMissing, tooManySandboxes } from "../wire/messages.ts";
import { awaitHealth, initDaemon, toInit, toSpec } from "./boot.ts";
import {
  changeState,
  openRun,
  requireLiving,
  requireMember,
  inTransition,
  whenSettled,
  updateRecord,
  type Domain,
  type Member,
} from "./domain.ts";
import { followMember, requireBuild } from "./registry-entry.ts";
import { toSandbox, type Sandbox } from "./sandbox.ts";
import { checkTimeout, expiryAfter } from "./timeout.ts";

export interface ResumeOptions {
  readonly timeoutSeconds: number;
  /** False asks for a start from disk, also where memory was kept. */
  readonly keepsMemory: boolean;
  /** A new policy for the next expiry; undefined keeps the old one. */
  readonly pausesAtTimeout?: boolean | undefined;
}

export interface Connected {
  readonly sandbox: Sandbox;
  /** False when it ran already. */
  readonly wasResumed: boolean;
}

/**
 * Resumes a paused sandbox; the expiry of a running one is extended, never shortened.
 * @throws SandboxError not_found, or failed_precondition while it is being killed.
 */
export async function connectSandbox(
  domain: Domain,
  sandboxId: string,
  options: ResumeOptions,
): Promise<Connected> {
  checkTimeout(options.timeoutSeconds);
  const member = requireLiving(domain, sandboxId);
  return whenSettled(member, async () => {
    // It may have been ended, by request or by its time, while this call waited.
    if (member.ending !== undefined) throw inTransition(sandboxId, "killing");
    const wasResumed = member.phase === "paused";
    if (wasResumed) await resumeMember(domain, member, options);
    else extend(domain, member, options.timeoutSeconds);
    return { sandbox: toSandbox(member, domain.secrets), wasResumed };
  });
}

function extend(domain: Domain, member: Member, seconds: number): void {
  const { startedAtMs, endAtMs } = member.record;
  const wantedMs = expiryAfter(domain, seconds, startedAtMs);
  if (wantedMs > endAtMs) updateRecord(domain, member, { endAtMs: wantedMs });
}

/**
 * Resumes a paused sandbox only.
 * @throws SandboxError not_found, or failed_precondition when it runs.
 */
export async function resumeSandbox(
  domain: Domain,
  sandboxId: string,
  options: ResumeOptions,
): Promise<Sandbox> {
  checkTimeout(options.timeoutSeconds);
  const member = requireMember(domain, sandboxId);
  if (member.phase === "snapshotting") {
    throw new SandboxError(
      "failed_precondition",
      `Sandbox snapshot is currently being created for sandbox '${sandboxId}'`,
    );
  }
  return whenSettled(member, async () => {
    if (member.ending !== undefined) {
      throw new SandboxError("not_found", sandboxMissing(sandboxId));
    }
    if (member.phase !== "paused") {
      throw new SandboxError("failed_precondition", sandboxAlreadyRunning(sandboxId));
    }
    await resumeMember(domain, member, options);
    return toSandbox(member, domain.secrets);
  });
}

/** Resumes a paused member; only for callers that found no change under way. */
export async function resumeMember(
  domain: Domain,
  member: Member,
  options: ResumeOptions,
): Promise<void> {
  const { sandboxId } = member.record;
  requireRoom(domain);
  await changeState(member, "resuming", async () => {
    if (member.record.hasMemory && options.keepsMemory) await thaw(domain, member, options);
    else await bootMember(domain, member, options);
    member.run = openRun(domain, member.container, member.record);
    return "running";
  });
  domain.logBook.note(member.record, "Sandbox resumed");
  await step("resume.committed");
  domain.log.info({ op: "sandbox.resume", sandboxId, outcome: "ok" }, "sandbox.resume ok");
  domain.noteExpiry();
}

async function thaw(domain: Domain, member: Member, options: ResumeOptions): Promise<void> {
  await member.container.resume();
  try {
    await step("resume.thawed");
    updateRecord(domain, member, toRunning(domain, member, options));
  } catch (error) {
    await member.container.pause();
    throw error;
  }
  followMember(domain, member, { isInitialized: false });
}

/** A fresh start on the files; should it fail, the files are still there. */
async function bootMember(domain: Domain, member: Member, options: ResumeOptions): Promise<void> {
  const { container } = member;
  if (!container.isHalted) {
    member.follower?.[Symbol.dispose]();
    member.follower = undefined;
    await container.halt();
    updateRecord(domain, member, { hasMemory: false });
  }
  const build = requireBuild(domain, member.record);
  const record = { ...member.record, bootId: randomUUID() };
  try {
    await container.boot(toSpec(domain, record, build), domain.closing);
    await step("boot.started");
    await initDaemon(container, toInit(domain, record, build), domain.closing);
    await step("boot.told");
    await awaitHealth(container, domain.closing);
    await step("boot.healthy");
    const { bootId } = record;
    updateRecord(domain, member, {
      ...toRunning(domain, member, options),
      hasMemory: true,
      bootId,
    });
  } catch (error) {
    await container.halt();
    throw toBootFault(error);
  }
  followMember(domain, member, { isInitialized: true });
}

/** What its programs made of its files is the reason, not what the client asked for. */
function toBootFault(error: unknown): SandboxError {
  const fault = toSandboxError(error, "sandbox boot");
  if (fault.code !== "invalid_argument") return fault;
  const message = `sandbox cannot start from its files: ${fault.message}`;
  return new SandboxError("failed_precondition", message, { cause: fault, hasSandboxPaths: true });
}

function toRunning(domain: Domain, member: Member, options: ResumeOptions): Partial<SandboxRecord> {
  const startedAtMs = domain.clock.now();
  return {
    state: "running",
    startedAtMs,
    endAtMs: expiryAfter(domain, options.timeoutSeconds, startedAtMs),
    pausesAtTimeout: options.pausesAtTimeout ?? member.record.pausesAtTimeout,
  };
}

/** Paused ones count at creation already; a service started anew may allow fewer. */
function requireRoom({ members, maxSandboxes, places, team }: Domain): void {
  const running = [...members.values()].filter(({ run }) => run !== undefined);
  if (running.length < maxSandboxes) return;
  const own = running.filter(({ record }) => record.team === team).length;
  const message = tooManySandboxes({ ...places.sharesOf(team), own, maxSandboxes });
  throw new SandboxError("resource_exhausted", message);
}
