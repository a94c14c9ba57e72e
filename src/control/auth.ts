/** Who may call the control API: whoever sends a key that the service knows, for its team. */

import type { IncomingHttpHeaders } from "node:http";
import { SandboxError } from "../common/errors.ts";
import type { KeyCheck } from "../sandboxes/keys.ts";
import { API_KEY_HEADER } from "../wire/headers.ts";
import { MESSAGES } from "../wire/messages.ts";

const KEY_PREFIX = "e2b_";
const HEX_PATTERN = /^[0-9a-f]+$/i;

/**
 * The team of the key.
 * @throws SandboxError unauthenticated, with the reason that the wire names.
 */
export function requireKey(headers: IncomingHttpHeaders, keys: KeyCheck): string {
  const key = headers[API_KEY_HEADER];
  if (typeof key !== "string" || key === "") throw refuse(MESSAGES.keyMissing);
  const team = keys.teamOf(key);
  if (team !== undefined) return team;
  if (!key.startsWith(KEY_PREFIX)) throw refuse(MESSAGES.keyMalformed);
  if (!HEX_PATTERN.test(key.slice(KEY_PREFIX.length))) throw refuse(MESSAGES.keyNotHex);
  throw refuse(MESSAGES.keyUnknown);
}

function refuse(message: string): SandboxError {
  return new SandboxError("unauthenticated", message);
}
