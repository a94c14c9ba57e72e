/** What the gateway asks: the endpoint of a running sandbox, and the wake-up of a paused one. */

import { SandboxError } from "../../common/errors.ts";
import { ENVD_PORT } from "../../wire/headers.ts";
import { MESSAGES } from "../../wire/messages.ts";
import { equalSecrets } from "../../wire/signature.ts";
import type { SandboxContext, SandboxEntry, Services, Registry } from "../context.ts";
import { whenIdle } from "../registry.ts";
import type { Endpoint, Run } from "../run.ts";
import { MAX_RUN_SECONDS } from "../timeout.ts";
import { findUnadopted, unadoptedSandboxes } from "../unadopted.ts";
import { resumeEntry } from "./resume-sandbox.ts";

/** Undefined unless it runs here and now. */
export function locate(context: Services & Registry, sandboxId: string): Endpoint | undefined {
  context.lastUse.atMs = context.clock.elapsed();
  const entry = context.entries.get(sandboxId);
  return entry === undefined ? undefined : openRunOf(entry)?.endpoint;
}

/** A request that came while its sandbox is being paused would be cut: it waits where it may wake. */
function openRunOf(entry: SandboxEntry): Run | undefined {
  if (entry.ending !== undefined) return undefined;
  return entry.phase === "pausing" && isWakeable(entry) ? undefined : entry.run;
}

/** Every running sandbox, for requests that name none. */
export function endpoints(context: Registry): Endpoint[] {
  return [...context.entries.values()].flatMap((entry) => openRunOf(entry)?.endpoint ?? []);
}

/** A request must not give less than a client needs to notice, whatever creation asked for. */
const MIN_WOKEN_SECONDS = 300;

/** A pause or resume that takes longer is no reason to hold a request any more. */
const MAX_WAIT_MS = 60_000;

/** A request for a sandbox that does not run. */
export interface WakeRequest {
  readonly sandboxId: string;
  readonly port: number;
  /** The token for the daemon, as sent. */
  readonly accessToken: string | undefined;
  /** The token for every other port, as sent. */
  readonly trafficToken: string | undefined;
}

export interface StoppedSandbox extends Pick<Endpoint, "sandboxId" | "accessToken"> {
  /** Whether traffic may wake it now. */
  readonly isWakeable: boolean;
  /** Of one that is not adopted yet: why. */
  readonly fault?: SandboxError | undefined;
}

/** Why a sandbox that is not adopted yet cannot be entered, for those who could enter it. */
export function findEntryFault(
  context: Services & Registry,
  request: WakeRequest,
): SandboxError | undefined {
  const left = findUnadopted(context, request.sandboxId);
  return left !== undefined && mayWake(context, left, request) ? left.fault : undefined;
}

/**
 * Wakes a paused sandbox; one that runs by then is just found.
 * @throws SandboxError not_found unless it may be woken, permission_denied without the right
 * token, failed_precondition when it does not come to rest, resource_exhausted when too many run.
 */
export async function wakeSandbox(
  context: SandboxContext,
  request: WakeRequest,
): Promise<Endpoint> {
  const entry = context.entries.get(request.sandboxId);
  if (entry === undefined || !isWakeable(entry)) throw notFound();
  if (!mayWake(context, entry, request)) {
    throw new SandboxError("permission_denied", MESSAGES.wakeRefused);
  }
  let isLate = false;
  const over = new AbortController();
  const woken = whenIdle(entry, async () => {
    if (!isLate && entry.phase === "paused" && isWakeable(entry)) {
      await resumeEntry(context, entry, { timeoutSeconds: wokenSeconds(entry), keepsMemory: true });
    }
    if (entry.ending !== undefined || entry.run === undefined) throw notFound();
    return entry.run.endpoint;
  });
  const late = context.clock.sleep(MAX_WAIT_MS, over.signal).then((): never => {
    isLate = true;
    throw new SandboxError("failed_precondition", MESSAGES.stillChanging);
  });
  try {
    return await Promise.race([woken, late]);
  } finally {
    // The outcome of the slower one is not used.
    over.abort();
    void Promise.allSettled([woken, late]);
  }
}

/** Those that exist and cannot be entered now. */
export function stoppedSandboxes(context: Services & Registry): StoppedSandbox[] {
  const describe = ({ record: { sandboxId, isSecured } }: Pick<SandboxEntry, "record">) => ({
    sandboxId,
    accessToken: isSecured ? context.secrets.accessToken(sandboxId) : undefined,
  });
  const stopped = [...context.entries.values()]
    .filter((entry) => openRunOf(entry) === undefined && entry.ending === undefined)
    .map((entry) => ({ ...describe(entry), isWakeable: isWakeable(entry) }));
  const left = unadoptedSandboxes(context).map((each) => ({
    ...describe(each),
    isWakeable: false,
    fault: each.fault,
  }));
  return [...stopped, ...left];
}

/** A boot from disk may take long and run programs anew: that is for its owner to ask for. */
function isWakeable({ record, ending, phase }: SandboxEntry): boolean {
  if (ending !== undefined || !record.resumesOnTraffic) return false;
  return phase !== "paused" || (record.hasMemory && !record.isDaemonUnresponsive);
}

/** Only who could enter the running sandbox may wake it. */
export function mayWake(
  { secrets }: Pick<Services, "secrets">,
  { record }: Pick<SandboxEntry, "record">,
  request: WakeRequest,
): boolean {
  const { sandboxId, isSecured, isPrivate } = record;
  if (request.port === ENVD_PORT) {
    return !isSecured || isEqual(request.accessToken, secrets.accessToken(sandboxId));
  }
  return !isPrivate || isEqual(request.trafficToken, secrets.trafficToken(sandboxId));
}

function isEqual(given: string | undefined, expected: string): boolean {
  return given !== undefined && equalSecrets(given, expected);
}

/** The time to live that traffic gives. */
export function wokenSeconds({ record }: Pick<SandboxEntry, "record">): number {
  return Math.min(Math.max(record.timeoutSeconds, MIN_WOKEN_SECONDS), MAX_RUN_SECONDS);
}

function notFound(): SandboxError {
  return new SandboxError("not_found", MESSAGES.sandboxUnreachable);
}
