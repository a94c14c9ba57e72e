/**
 * What a caller asked of a new sandbox, and its service does not confirm: a service may leave out of
 * a request what it does not know, and the sandbox is made all the same.
 */

import type { CreatedSandboxBody, SandboxDetailBody } from "../wire/control.ts";

interface Wanted {
  readonly isolation?: string | undefined;
  readonly public_traffic: boolean;
  readonly allow_out?: readonly string[] | undefined;
  readonly deny_out?: readonly string[] | undefined;
}

interface Answered {
  readonly body: CreatedSandboxBody;
  /** Undefined where the service does not tell it. */
  readonly detail: SandboxDetailBody | undefined;
}

/** One note for each. */
export function unconfirmedNotes(wanted: Wanted, { body, detail }: Answered): readonly string[] {
  const { allowOut, denyOut, allowPublicTraffic } = detail?.network ?? {};
  const isPrivate = Boolean(body.trafficAccessToken) || allowPublicTraffic === false;
  const hasRules = isHeld(wanted.allow_out, allowOut) && isHeld(wanted.deny_out, denyOut);
  return [
    ...(wanted.isolation !== undefined && body.isolation !== wanted.isolation ? [ISOLATION] : []),
    ...(hasRules ? [] : [RULES]),
    ...(wanted.public_traffic || isPrivate ? [] : [PRIVACY]),
  ];
}

function isHeld(wanted: readonly string[] = [], told: readonly string[] | undefined): boolean {
  return wanted.length === 0 || told !== undefined;
}

const ISOLATION = "the service does not confirm the isolation: run no code in it that you distrust";
const RULES =
  "the service does not confirm allow_out and deny_out: try them before you rely on them";
const PRIVACY =
  "the service does not confirm that its ports need a token: take them for open to anyone";
