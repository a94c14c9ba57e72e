/** Why a sandbox that is gone ended, as the log of the service has it. */

import { setTimeout as delay } from "node:timers/promises";
import type { Service } from "../client/service.ts";
import { signalAfter } from "../common/late-signal.ts";
import type { LogsBody } from "../wire/control.ts";

const UNKNOWN = "expired, killed, or not yours";
/** By `kill_reason` of the record; any other text comes from a service that is not ours. */
const CAUSES: ReadonlyMap<string, string> = new Map([
  ["request", "killed"],
  ["timeout", "expired"],
  ["out of memory", "ended out of memory"],
  ["init ended", "ended with its first process"],
  ["service end", "ended with its service"],
]);
const STOPPED = "Sandbox stopped";
const LOOK_TIMEOUT_MS = 2_000;
/** A sandbox is gone for its callers a moment before its end is recorded. */
const LOOKS = 5;
const LOOK_EVERY_MS = 100;

/** In a few words; a guess where no service tells, which is no fault. */
export async function findEndCause(
  sandboxId: string,
  { control }: Pick<Service, "control">,
): Promise<string> {
  const signal = signalAfter(LOOK_TIMEOUT_MS);
  try {
    for (let look = 1; look <= LOOKS; look += 1) {
      const records = await control.findLogs(sandboxId, { search: STOPPED, limit: 10 }, signal);
      const cause = records.map((record) => causeOf(record)).find(Boolean);
      if (cause !== undefined) return cause;
      if (look < LOOKS) await delay(LOOK_EVERY_MS, undefined, { signal });
    }
  } catch {
    // It has no such log, or no longer.
  }
  return UNKNOWN;
}

/** Programs of the sandbox write records too, but as another service. */
function causeOf({ message, fields }: LogsBody["logEntries"][number]): string | undefined {
  if (message !== STOPPED || fields["service"] !== "sandbox-mcp") return undefined;
  return CAUSES.get(fields["kill_reason"] ?? "") ?? UNKNOWN;
}
