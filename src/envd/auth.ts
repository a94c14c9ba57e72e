/** Who may call: the token of the sandbox, or for one file a signature made with it. */

import { SandboxError } from "../common/errors.ts";
import { ACCESS_TOKEN_HEADER } from "../wire/headers.ts";
import { equalSecrets, signFile, type SignedFile } from "../wire/signature.ts";
import type { Exchange } from "./exchange.ts";
import type { Settings } from "./settings.ts";

/** Routes that check for themselves, or need no token, by method and exact path. */
const EXEMPT: ReadonlySet<string> = new Set([
  "GET /health",
  "GET /files",
  "HEAD /files",
  "POST /files",
]);

/** What a program of the sandbox knows anyway. */
const EXEMPT_INSIDE: ReadonlySet<string> = new Set(["GET /envs"]);

export interface CallHead {
  readonly method: string;
  readonly path: string;
  readonly token: string;
  /** Whether a program of the sandbox calls. */
  readonly isFromInside: boolean;
}

/** Whether a request may go on to its route. */
export function isAdmitted(settings: Settings, call: CallHead): boolean {
  const { accessToken } = settings;
  const name = `${call.method} ${call.path}`;
  if (accessToken === undefined || EXEMPT.has(name)) return true;
  if (call.isFromInside && EXEMPT_INSIDE.has(name)) return true;
  return equalSecrets(call.token, accessToken);
}

/** The access token that a request carries, empty without one; a doubled header fits no token. */
export function tokenOf(headers: NodeJS.Dict<string | string[]>): string {
  const value = headers[ACCESS_TOKEN_HEADER];
  return typeof value === "string" ? value : "";
}

/** No account has another name; above all, none has a colon, which the signature joins with. */
const USER_PATTERN = /^(?:[a-z_][a-z0-9_-]{0,31})?$/;

/**
 * Grants one file operation by token or signature; everything is granted while no token is set.
 * @throws SandboxError unauthenticated
 */
export function authorizeFile(
  exchange: Exchange,
  file: SignedFile & { readonly signature: string | undefined },
): void {
  const { accessToken } = exchange.daemon.settings.current;
  if (accessToken === undefined) return;
  const fault = findFault(tokenOf(exchange.request.headers), file, accessToken);
  if (fault === undefined) return;
  exchange.daemon.log.write("error", "error during auth validation", {
    logger: "envd",
    operation_id: exchange.operationId,
    error: fault,
  });
  throw new SandboxError("unauthenticated", fault);
}

/** Why a file operation is refused; undefined when it is granted. */
function findFault(
  given: string,
  file: SignedFile & { readonly signature: string | undefined },
  accessToken: string,
): string | undefined {
  if (given !== "") {
    const isEqual = equalSecrets(given, accessToken);
    return isEqual ? undefined : "access token present in header but does not match";
  }
  if (file.signature === undefined) return "missing signature query parameter";
  const isValid =
    USER_PATTERN.test(file.username) && equalSecrets(file.signature, signFile(file, accessToken));
  if (!isValid) return "invalid signature";
  const nowSeconds = Math.floor(Date.now() / 1000);
  const isExpired = file.expiration !== undefined && file.expiration < nowSeconds;
  return isExpired ? "signature is already expired" : undefined;
}
