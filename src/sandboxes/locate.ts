/** From an address to a running sandbox. */

import type { Domain } from "./domain.ts";
import type { Endpoint } from "./run.ts";

/** Undefined unless it runs here and now. */
export function locate(domain: Domain, sandboxId: string): Endpoint | undefined {
  domain.used.atMs = domain.clock.now();
  const member = domain.members.get(sandboxId);
  return member?.ending === undefined ? member?.run?.endpoint : undefined;
}

/** Every running sandbox, for requests that name none. */
export function endpoints(domain: Domain): Endpoint[] {
  return [...domain.members.values()].flatMap((member) =>
    member.ending === undefined && member.run !== undefined ? [member.run.endpoint] : [],
  );
}
