/** The access to one sandbox, renewed when its token is refused. */

import { hasErrorCode, SandboxError } from "../common/errors.ts";
import { quoteName } from "../common/untrusted-text.ts";
import {
  ACCESS_TOKEN_HEADER,
  ENVD_PORT,
  SANDBOX_ID_HEADER,
  SANDBOX_PORT_HEADER,
} from "../wire/headers.ts";

/** The access to a sandbox as of the last control reply. */
export interface Access {
  readonly token: string | undefined;
  readonly domain: string | undefined;
  /** Unix milliseconds; undefined when no reply told it. */
  readonly expiresAtMs: number | undefined;
  /** What happens then; undefined when no reply told it. */
  readonly onTimeout: OnTimeout | undefined;
}

/** What a service does with a sandbox whose time is over. */
export type OnTimeout = "kill" | "pause";

/** The access of one sandbox, shared by its clients. */
export interface AccessSource {
  readonly sandboxId: string;
  current(): Access;
  /** Asks the control API again; returns whether the token changed. */
  refresh(signal: AbortSignal): Promise<boolean>;
  /** Whether the sandbox runs: a paused one sends nothing. @throws SandboxError not_found, and as calls do */
  isRunning(signal: AbortSignal): Promise<boolean>;
}

/** The headers by which a gateway and the daemon know sandbox and caller. */
export function accessHeaders(source: AccessSource): Readonly<Record<string, string>> {
  const { token } = source.current();
  return {
    [SANDBOX_ID_HEADER]: source.sandboxId,
    [SANDBOX_PORT_HEADER]: String(ENVD_PORT),
    ...(token !== undefined && { [ACCESS_TOKEN_HEADER]: token }),
  };
}

/** The header that names a user of the sandbox; none for its default user. */
export function userHeader(user: string | undefined): Readonly<Record<string, string>> {
  if (user === undefined) return {};
  return { authorization: `Basic ${Buffer.from(`${user}:`, "utf8").toString("base64")}` };
}

/** A call as one user, whose end the signal can bring forward. */
export interface CallOptions {
  readonly signal: AbortSignal;
  /** The sandbox's default user when absent. */
  readonly user?: string | undefined;
}

/** Repeats a call once with a new token when the old one is refused. */
export async function withAccess<T>(
  source: AccessSource,
  options: CallOptions,
  call: () => Promise<T>,
): Promise<T> {
  try {
    return await call();
  } catch (error) {
    await renewAccess(source, error, options);
  }
  return call();
}

/** The API key, of which the default hint of this code tells, was just accepted. */
const REFUSED_HINT =
  "The sandbox refused its access token, or has no default user: name a user such as root, or use another sandbox.";

/**
 * Resolves when a refused call is to be repeated: it was not carried out and the token changed.
 * @throws SandboxError the refusal otherwise; any other error as it is.
 */
export async function renewAccess(
  source: AccessSource,
  error: unknown,
  options: CallOptions,
): Promise<void> {
  if (!hasErrorCode(error, "unauthenticated")) throw error;
  if (await hasNewToken(source, error, options.signal)) return;
  if (options.user === undefined) {
    throw new SandboxError(error.code, error.message, { hint: REFUSED_HINT, cause: error });
  }
  // The token is unchanged, so the daemon refused the user.
  throw new SandboxError(
    "invalid_argument",
    `no user ${quoteName(options.user)} in ${source.sandboxId}`,
    {
      hint: "Leave user out for the default user, or use root.",
      cause: error,
    },
  );
}

async function hasNewToken(
  source: AccessSource,
  refusal: unknown,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    return await source.refresh(signal);
  } catch (error) {
    if (!hasErrorCode(error, "not_found")) throw error;
    // not_found would be taken for the object in the sandbox.
    const message = `${source.sandboxId} is gone`;
    throw new SandboxError("unavailable", message, { cause: refusal });
  }
}
