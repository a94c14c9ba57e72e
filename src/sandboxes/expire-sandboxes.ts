/** What happens to a sandbox when its time is over: it is paused or ended, one or the other. */

import type { Domain, Member } from "./domain.ts";
import { pauseMember } from "./pause-sandbox.ts";
import { endMember } from "./registry-entry.ts";

/** The nearest expiry; undefined when nothing expires. */
export function nextExpiry(domain: Domain): number | undefined {
  return mortals(domain).reduce<number | undefined>(
    (nearest, { record }) => Math.min(nearest ?? Infinity, record.endAtMs),
    undefined,
  );
}

/** Ends or pauses whatever is due; none of it is due any more when this returns. */
export function expireDue(domain: Domain): void {
  const nowMs = domain.clock.now();
  for (const member of mortals(domain)) {
    // Its faults are logged inside.
    if (member.record.endAtMs <= nowMs) void expireMember(domain, member);
  }
}

/** Members that have an expiry and whose time nobody is already acting on. */
function mortals(domain: Domain): Member[] {
  return [...domain.members.values()].filter(
    ({ phase, ending }) => phase === "running" && ending === undefined,
  );
}

async function expireMember(domain: Domain, member: Member): Promise<void> {
  const { sandboxId, pausesAtTimeout, keepsMemory } = member.record;
  try {
    if (pausesAtTimeout) await pauseMember(domain, member, { reason: "timeout", keepsMemory });
    else await endMember(domain, member, "timeout");
  } catch (error) {
    domain.log.error({ op: "sandbox.expire", sandboxId, err: error }, "expiry failed");
    // A sandbox that cannot be paused must not outlive its time.
    if (pausesAtTimeout) await endAfterFault(domain, member);
  }
}

async function endAfterFault(domain: Domain, member: Member): Promise<void> {
  try {
    await endMember(domain, member, "timeout");
  } catch (error) {
    const { sandboxId } = member.record;
    domain.log.error({ op: "sandbox.end", sandboxId, err: error }, "end failed");
  }
}
