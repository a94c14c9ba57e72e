/** A paused sandbox that traffic brings back to life, where its creator wished so. */

import { SandboxError } from "../common/errors.ts";
import { ENVD_PORT } from "../wire/headers.ts";
import { MESSAGES } from "../wire/messages.ts";
import { equalSecrets } from "../wire/signature.ts";
import { whenSettled, type Domain, type Member } from "./domain.ts";
import { resumeMember } from "./resume-sandbox.ts";
import type { Endpoint } from "./run.ts";
import { MAX_RUN_SECONDS } from "./timeout.ts";

/** A request must not give less than a client needs to notice, whatever creation asked for. */
const MIN_WOKEN_SECONDS = 300;

/** A pause or resume that takes longer is no reason to hold a request any more. */
const MAX_WAIT_MS = 60_000;

/** A request at the door of a sandbox that does not run. */
export interface WakeRequest {
  readonly sandboxId: string;
  readonly port: number;
  /** The token for the daemon, as sent. */
  readonly accessToken: string | undefined;
  /** The token for every other port, as sent. */
  readonly trafficToken: string | undefined;
}

/** A sandbox that traffic may wake. */
export type WakeableSandbox = Pick<Endpoint, "sandboxId" | "accessToken">;

/**
 * Wakes a paused sandbox; one that runs by then is just found.
 * @throws SandboxError not_found unless it may be woken, permission_denied without the right
 * token, failed_precondition when it does not come to rest, resource_exhausted when too many run.
 */
export async function wakeSandbox(domain: Domain, knock: WakeRequest): Promise<Endpoint> {
  const member = domain.members.get(knock.sandboxId);
  if (member === undefined || !isWakeable(member)) throw notFound();
  if (!mayWake(domain, member, knock)) {
    throw new SandboxError("permission_denied", MESSAGES.wakeRefused);
  }
  let isLate = false;
  const over = new AbortController();
  const woken = whenSettled(member, async () => {
    if (!isLate && member.phase === "paused" && isWakeable(member)) {
      await resumeMember(domain, member, { timeoutSeconds: toSeconds(member), keepsMemory: true });
    }
    if (member.ending !== undefined || member.run === undefined) throw notFound();
    return member.run.endpoint;
  });
  const late = domain.clock.sleep(MAX_WAIT_MS, over.signal).then((): never => {
    isLate = true;
    throw new SandboxError("failed_precondition", MESSAGES.stillChanging);
  });
  try {
    return await Promise.race([woken, late]);
  } finally {
    // Whichever comes second has nobody to tell.
    over.abort();
    void Promise.allSettled([woken, late]);
  }
}

/** Those that traffic may wake now. */
export function wakeableSandboxes(domain: Domain): WakeableSandbox[] {
  return [...domain.members.values()]
    .filter((member) => member.run === undefined && isWakeable(member))
    .map(({ record: { sandboxId, isSecured } }) => ({
      sandboxId,
      accessToken: isSecured ? domain.secrets.accessToken(sandboxId) : undefined,
    }));
}

/** A boot from disk may take long and run programs anew: that is for its owner to ask for. */
function isWakeable({ record, ending, phase }: Member): boolean {
  if (ending !== undefined || !record.resumesOnTraffic) return false;
  return phase !== "paused" || record.hasMemory;
}

/** Only who could enter the running sandbox may wake it. */
function mayWake({ secrets }: Domain, { record }: Member, knock: WakeRequest): boolean {
  const { sandboxId, isSecured, isPrivate } = record;
  if (knock.port === ENVD_PORT) {
    return !isSecured || isEqual(knock.accessToken, secrets.accessToken(sandboxId));
  }
  return !isPrivate || isEqual(knock.trafficToken, secrets.trafficToken(sandboxId));
}

function isEqual(given: string | undefined, expected: string): boolean {
  return given !== undefined && equalSecrets(given, expected);
}

function toSeconds({ record }: Member): number {
  return Math.min(Math.max(record.timeoutSeconds, MIN_WOKEN_SECONDS), MAX_RUN_SECONDS);
}

function notFound(): SandboxError {
  return new SandboxError("not_found", MESSAGES.sandboxUnreachable);
}
