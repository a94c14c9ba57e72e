/**
 * Pauses a sandbox: connections break, and either every process stands still with its memory or
 * all end and only the files stay.
 */

import { SandboxError } from "../common/errors.ts";
import { step } from "../common/steps.ts";
import { sandboxAlreadyPaused, sandboxCannotBe, sandboxMissing } from "../wire/messages.ts";
import {
  changeState,
  findMember,
  noteRecord,
  openRun,
  whenSettled,
  updateRecord,
  type Domain,
  type Member,
} from "./domain.ts";
import { endMember, followMember } from "./registry-entry.ts";

/**
 * Resolves when it is paused. Calls that come while it is being paused join.
 * @throws SandboxError not_found, or failed_precondition when it is paused already or ending.
 */
export async function pauseSandbox(
  domain: Domain,
  sandboxId: string,
  keepsMemory: boolean,
): Promise<void> {
  const member = findMember(domain, sandboxId);
  if (member === undefined) throw new SandboxError("not_found", sandboxMissing(sandboxId));
  const isJoining = member.phase === "pausing";
  await whenSettled(member, async () => {
    if (member.ending !== undefined) {
      throw new SandboxError(
        "failed_precondition",
        sandboxCannotBe("paused", sandboxId, "killing"),
      );
    }
    if (member.phase !== "paused")
      return pauseMember(domain, member, { reason: "request", keepsMemory });
    if (!isJoining) {
      throw new SandboxError("failed_precondition", sandboxAlreadyPaused(sandboxId));
    }
  });
}

/** Why a sandbox is paused, and whether its memory stays. */
export interface Pause {
  readonly reason: string;
  readonly keepsMemory: boolean;
}

/** Pauses a running member; only for callers that found no change under way. */
export async function pauseMember(domain: Domain, member: Member, pause: Pause): Promise<void> {
  const { reason, keepsMemory } = pause;
  domain.logBook.note(member.record, "Pausing sandbox", { pause_reason: reason });
  await changeState(member, "pausing", async () => {
    member.run?.end();
    member.run = undefined;
    if (keepsMemory) await freeze(domain, member);
    else await halt(domain, member);
    return "paused";
  });
  await step("pause.committed");
  const { sandboxId } = member.record;
  domain.log.info(
    { op: "sandbox.pause", sandboxId, reason, keepsMemory, outcome: "ok" },
    "sandbox.pause ok",
  );
}

async function freeze(domain: Domain, member: Member): Promise<void> {
  try {
    await step("pause.cut");
    await member.container.pause();
    await step("pause.frozen");
    const endAtMs = domain.clock.now();
    updateRecord(domain, member, { state: "paused", hasMemory: true, endAtMs });
  } catch (error) {
    await member.container.resume();
    member.run = openRun(domain, member.container, member.record);
    throw error;
  }
}

/** Once begun there is no way back: should it fail half way, the sandbox ends. */
async function halt(domain: Domain, member: Member): Promise<void> {
  member.follower?.[Symbol.dispose]();
  member.follower = undefined;
  try {
    await member.container.halt();
    await step("pause.halted");
  } catch (error) {
    if (!member.container.isHalted) {
      member.run = openRun(domain, member.container, member.record);
      followMember(domain, member, { isInitialized: true });
      throw error;
    }
    // It waits for this change to be over.
    void endMember(domain, member, "pause failed").catch((fault: unknown) => {
      const { sandboxId } = member.record;
      domain.log.error({ op: "sandbox.end", sandboxId, err: fault }, "sandbox left traces");
    });
    throw error;
  }
  const endAtMs = domain.clock.now();
  noteRecord(domain, member, { state: "paused", hasMemory: false, endAtMs });
}
