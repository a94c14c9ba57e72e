/** Lists the sandboxes of a team, filtered and in pages. */

import type { Domain, Member } from "./domain.ts";
import { paginate, type Page, type PageRequest } from "./paging.ts";
import { toSandbox, type Sandbox } from "./sandbox.ts";

export interface ListQuery {
  readonly states: readonly Sandbox["state"][];
  /** Every pair must be there and equal. */
  readonly metadata: ReadonlyMap<string, string>;
  /** Inclusive. */
  readonly startedAfterMs: number | undefined;
  readonly templateId: string | undefined;
  readonly page: PageRequest;
}

export interface SandboxList extends Page<Sandbox> {
  /** Running ones that pass the filters, on any page. */
  readonly totalRunning: number;
}

/** @throws SandboxError invalid_argument when the token of the page is not ours. */
export function listSandboxes(domain: Domain, query: ListQuery): SandboxList {
  const sandboxes = [...domain.members.values()]
    .filter((member) => member.ending === undefined && member.record.team === domain.team)
    .map((member) => describeMember(domain, member))
    .filter((sandbox) => matches(sandbox, query));
  const page = paginate(
    sandboxes,
    ({ startedAtMs, sandboxId }) => ({ atMs: startedAtMs, id: sandboxId }),
    query.page,
  );
  const totalRunning = sandboxes.filter(({ state }) => state === "running").length;
  return { ...page, totalRunning };
}

/** What is told of a member: one that is being paused counts as paused. */
export function describeMember(domain: Domain, member: Member): Sandbox {
  const sandbox = toSandbox(member, domain.secrets);
  return member.phase === "pausing" ? { ...sandbox, state: "paused" } : sandbox;
}

function matches(sandbox: Sandbox, query: ListQuery): boolean {
  if (!query.states.includes(sandbox.state)) return false;
  if (query.startedAfterMs !== undefined && sandbox.startedAtMs < query.startedAfterMs) {
    return false;
  }
  if (query.templateId !== undefined && sandbox.templateId !== query.templateId) return false;
  return [...query.metadata].every(
    ([key, value]) =>
      sandbox.metadata !== undefined &&
      Object.hasOwn(sandbox.metadata, key) &&
      sandbox.metadata[key] === value,
  );
}
