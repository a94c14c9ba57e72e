/** Entering and leaving the circle of living sandboxes. */

import { SandboxError } from "../common/errors.ts";
import { step } from "../common/steps.ts";
import type { Container } from "../engine/engine.ts";
import type { BuildRecord, SandboxRecord } from "../store/store.ts";
import { toInit } from "./boot.ts";
import { discard } from "./discard.ts";
import {
  changeState,
  openRun,
  whenSettled,
  updateRecord,
  type Domain,
  type Member,
} from "./domain.ts";
import { followDaemon } from "./follow-daemon.ts";
import { releaseForkBuild } from "./fork-builds.ts";

/** Admits a container; should it die by itself, its member ends too. */
export function admitMember(domain: Domain, container: Container, record: SandboxRecord): Member {
  const member: Member = {
    container,
    record,
    phase: record.state === "paused" ? "paused" : "running",
    change: undefined,
    ending: undefined,
    run: record.state === "paused" ? undefined : openRun(domain, container, record),
    follower: undefined,
  };
  domain.members.set(record.sandboxId, member);
  // Its faults are logged inside.
  void watchExit(domain, member);
  return member;
}

async function watchExit(domain: Domain, member: Member): Promise<void> {
  const { reason } = await member.container.exit;
  if (member.ending !== undefined || domain.closing.aborted) return;
  try {
    await endMember(domain, member, reason);
  } catch (error) {
    const { sandboxId } = member.record;
    domain.log.error({ op: "sandbox.exit", sandboxId, err: error }, "dead sandbox left traces");
  }
}

/** Reads the daemon's log from now on, if it is not read yet. */
export function followMember(
  domain: Domain,
  member: Member,
  options: { readonly isInitialized: boolean },
): void {
  const { container, record } = member;
  member.follower ??= followDaemon(domain, {
    container,
    subject: record,
    init: () => toInit(domain, record, requireBuild(domain, record)),
    isInitialized: options.isInitialized,
  });
}

/** @throws SandboxError internal when the build that a sandbox stands on is gone. */
export function requireBuild(domain: Domain, record: SandboxRecord): BuildRecord {
  const build = domain.store.builds.get(record.buildId);
  if (build === undefined) {
    throw new SandboxError("internal", `build ${record.buildId} of a living sandbox is gone`);
  }
  return build;
}

/**
 * Ends a sandbox for good, after whatever change is under way. Callers join the same end.
 * @throws SandboxError internal when not everything could be removed: that is done later, and the
 * sandbox is gone anyway.
 */
export function endMember(domain: Domain, member: Member, reason: string): Promise<void> {
  member.ending ??= end(domain, member, reason);
  return member.ending;
}

async function remove(domain: Domain, member: Member): Promise<"paused"> {
  member.run?.end();
  member.follower?.[Symbol.dispose]();
  await step("kill.cut");
  recordIntent(domain, member);
  await step("kill.intent");
  await member.container[Symbol.asyncDispose]();
  // Nobody sees this phase: the member leaves the circle right after.
  return "paused";
}

/** A disk that is too full for the intent must not keep a sandbox alive. */
function recordIntent(domain: Domain, member: Member): void {
  try {
    updateRecord(domain, member, { state: "ending" });
  } catch (error) {
    const { sandboxId } = member.record;
    domain.log.error({ op: "sandbox.end", sandboxId, err: error }, "end could not be recorded");
  }
}

async function end(domain: Domain, member: Member, reason: string): Promise<void> {
  const { sandboxId } = member.record;
  try {
    await whenSettled(member, () => changeState(member, "killing", () => remove(domain, member)));
    await step("kill.removed");
    domain.store.sandboxes.remove(sandboxId);
    await step("kill.erased");
    await releaseForkBuild(domain, member.record.buildId);
    domain.logBook.note(member.record, "Sandbox stopped", { kill_reason: reason });
    domain.log.info({ op: "sandbox.end", sandboxId, reason, outcome: "ok" }, "sandbox.end ok");
  } catch (error) {
    // Nobody reaches it any more; what is left of it must not stay.
    domain.retry(`end of ${sandboxId}`, () => discard(domain, member.record, reason));
    throw error;
  } finally {
    domain.members.delete(sandboxId);
    domain.meter.forget(sandboxId);
  }
}
