/** Ends a sandbox on request. */

import { SandboxError } from "../common/errors.ts";
import { sandboxMissing } from "../wire/messages.ts";
import { findMember, type Domain } from "./domain.ts";
import { endMember } from "./registry-entry.ts";

/**
 * Ends it and resolves when nothing of it is left; it is gone for others at once.
 * @throws SandboxError not_found when there is none.
 */
export async function killSandbox(domain: Domain, sandboxId: string): Promise<void> {
  const member = findMember(domain, sandboxId);
  if (member === undefined) throw new SandboxError("not_found", sandboxMissing(sandboxId));
  if (member.ending === undefined) domain.logBook.note(member.record, "Killing sandbox");
  await endMember(domain, member, "request");
}
