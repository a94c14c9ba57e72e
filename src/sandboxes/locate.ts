/** From an address to a running sandbox. */

import { SandboxError } from "../common/errors.ts";
import { MESSAGES } from "../wire/messages.ts";
import type { Domain } from "./domain.ts";
import type { Endpoint } from "./run.ts";

/** @throws SandboxError not_found unless it runs here and now. */
export function locate(domain: Domain, sandboxId: string): Endpoint {
  const member = domain.members.get(sandboxId);
  if (member === undefined || member.ending !== undefined || member.run === undefined) {
    throw new SandboxError("not_found", MESSAGES.sandboxUnreachable);
  }
  return member.run.endpoint;
}

/** Every running sandbox, for requests that name none. */
export function endpoints(domain: Domain): Endpoint[] {
  return [...domain.members.values()].flatMap((member) =>
    member.ending === undefined && member.run !== undefined ? [member.run.endpoint] : [],
  );
}
