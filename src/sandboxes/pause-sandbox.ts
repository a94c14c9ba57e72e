/** Pauses a sandbox: every process stands still, memory is kept, connections break. */

import { SandboxError } from "../common/errors.ts";
import { sandboxAlreadyPaused, sandboxCannotBe, sandboxMissing } from "../wire/messages.ts";
import {
  changeState,
  openRun,
  whenSettled,
  updateRecord,
  type Domain,
  type Member,
} from "./domain.ts";

/**
 * Resolves when it is paused. Calls that come while it is being paused join.
 * @throws SandboxError not_found, or failed_precondition when it is paused already or ending.
 */
export async function pauseSandbox(domain: Domain, sandboxId: string): Promise<void> {
  const member = domain.members.get(sandboxId);
  if (member === undefined) throw new SandboxError("not_found", sandboxMissing(sandboxId));
  const isJoining = member.phase === "pausing";
  await whenSettled(member, async () => {
    if (member.ending !== undefined) {
      throw new SandboxError(
        "failed_precondition",
        sandboxCannotBe("paused", sandboxId, "killing"),
      );
    }
    if (member.phase !== "paused") return pauseMember(domain, member, "request");
    if (!isJoining) {
      throw new SandboxError("failed_precondition", sandboxAlreadyPaused(sandboxId));
    }
  });
}

/** Pauses a running member; only for callers that found no change under way. */
export async function pauseMember(domain: Domain, member: Member, reason: string): Promise<void> {
  domain.logBook.note(member.record, "Pausing sandbox", { pause_reason: reason });
  await changeState(member, "pausing", async () => {
    member.run?.end();
    member.run = undefined;
    try {
      await member.container.pause();
      updateRecord(domain, member, { state: "paused", endAtMs: domain.clock.now() });
    } catch (error) {
      await member.container.resume();
      member.run = openRun(domain, member.container, member.record);
      throw error;
    }
    return "paused";
  });
  const { sandboxId } = member.record;
  domain.log.info({ op: "sandbox.pause", sandboxId, reason, outcome: "ok" }, "sandbox.pause ok");
}
