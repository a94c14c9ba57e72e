/** What the daemon of a new Pod reports of its separation, before any program of a client has run. */

import { SandboxError } from "../../common/errors.ts";
import { parseJson } from "../../common/json.ts";
import { z } from "../../common/schema.ts";
import { ISOLATION_LEVELS, type IsolationLevel } from "../../engine/engine.ts";
import { askDaemon } from "./ask-daemon.ts";
import type { PodDialer } from "./dial.ts";

const MAX_REPLY_BYTES = 16_384;
/** A filter of system calls is in force. */
const FILTERED = 2;
/** A map of one line that gives a process the ids of the machine: it is in no user namespace. */
const IDENTITY_PATTERN = /^\s*0\s+0\s+4294967295\s*$/;

const replySchema = z.object({ idMap: z.string(), seccomp: z.number().nullable() });

/** @throws SandboxError unavailable when it does not answer. */
export async function measureIsolation(
  dialer: Pick<PodDialer, "dialControl">,
  signal: AbortSignal,
): Promise<IsolationLevel> {
  const body = await askDaemon(dialer, { path: "/isolation", maxBytes: MAX_REPLY_BYTES }, signal);
  return toLevel(replySchema.parse(parseJson(body)));
}

/** Without a filter of system calls it is no isolation that the service offers. */
export function toLevel({ idMap, seccomp }: z.infer<typeof replySchema>): IsolationLevel {
  if (seccomp !== FILTERED || idMap.trim() === "") return "none";
  return IDENTITY_PATTERN.test(idMap) ? "container" : "userns-container";
}

/** @throws SandboxError unavailable when the level is weaker than required. */
export function requireStrength(level: IsolationLevel, required: IsolationLevel): void {
  if (ISOLATION_LEVELS.indexOf(level) >= ISOLATION_LEVELS.indexOf(required)) return;
  throw new SandboxError("unavailable", `the Pod is isolated as ${level}, not as ${required}`, {
    hint: "sandbox-mcp doctor --engine kubernetes shows what the cluster lacks",
    word: "sandbox_create_failed",
  });
}
