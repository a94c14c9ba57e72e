/** Why a sandbox that is gone ended, as the log of the service has it. */

import { setTimeout as delay } from "node:timers/promises";
import type { Service } from "../../client/service.ts";
import { signalAfter } from "../../common/late-signal.ts";
import type { LogsBody } from "../../wire/control.ts";

const UNKNOWN = "expired, killed, or not yours";
/** By `kill_reason` of the record; any other text comes from a service that is not ours. */
const CAUSES: ReadonlyMap<string, string> = new Map([
  ["request", "killed"],
  ["timeout", "expired"],
  ["out of memory", "ended out of memory"],
  ["init ended", "ended with its first process"],
  [
    "service end",
    "ended with the MCP server that created it; where each call starts a server, " +
      "the user must run sandbox-mcp serve",
  ],
  ["host_restart", "ended with its machine"],
  ["pause failed", "ended because a pause of it failed"],
]);
/** Written when nothing is left of it. */
const STOPPED = "Sandbox stopped";
/** Written when its end begins; by older services without the cause, and not for every end. */
const KILLING = "Killing sandbox";
const LOOK_TIMEOUT_MS = 2_000;
/** A sandbox may be gone for its callers a moment before its end is recorded. */
const LOOKS = 5;
const LOOK_EVERY_MS = 100;

/** In a few words; a guess where no service tells, which is no fault. */
export async function findEndCause(
  sandboxId: string,
  { control }: Pick<Service, "control">,
): Promise<string> {
  const signal = signalAfter(LOOK_TIMEOUT_MS);
  const look = async (search: string) => {
    const records = await control.findLogs(sandboxId, { search, limit: 10 }, signal);
    return records.map((record) => causeOf(record, search)).find(Boolean);
  };
  try {
    const early = (await look(STOPPED)) ?? (await look(KILLING));
    if (early !== undefined) return early;
    for (let looks = 1; looks < LOOKS; looks += 1) {
      await delay(LOOK_EVERY_MS, undefined, { signal });
      const cause = await look(STOPPED);
      if (cause !== undefined) return cause;
    }
  } catch {
    // It has no such log, or no longer.
  }
  return UNKNOWN;
}

/** Programs of the sandbox write records too, but as another service. */
function causeOf(
  { message, fields }: LogsBody["logEntries"][number],
  wanted: string,
): string | undefined {
  const { service, kill_reason: reason } = fields;
  if (message !== wanted || service !== "sandbox-mcp" || reason === undefined) return undefined;
  return CAUSES.get(reason) ?? UNKNOWN;
}
