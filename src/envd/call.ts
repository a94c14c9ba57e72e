/** What every RPC has at hand, and how our errors become the wire's. */

import {
  Code,
  ConnectError,
  createContextKey,
  type ContextKey,
  type HandlerContext,
  type Interceptor,
  type StreamResponse,
} from "@connectrpc/connect";
import { SandboxError } from "../common/errors.ts";
import { fromWirePath, toWireText } from "../common/file-names.ts";
import { CONNECT_CODES } from "../rpc/errors.ts";
import { KEEPALIVE_INTERVAL_HEADER } from "../wire/headers.ts";
import type { Daemon } from "./daemon.ts";
import { MAX_PATH_CHARACTERS, tidyPath } from "./parent-path.ts";
import { resolvePath } from "./path.ts";
import type { User } from "./user.ts";

/** What the HTTP side learned about a call before its message was read. */
export interface CallOrigin {
  readonly daemon: Daemon;
  /** The user of the Basic header, already looked up; undefined without one. */
  readonly namedUser: User | undefined;
  /** Joins the lines of this call in the log. */
  readonly operationId: string;
}

/** Travels with each RPC from the server to its operation. */
export const callOriginKey: ContextKey<CallOrigin | undefined> = createContextKey<
  CallOrigin | undefined
>(undefined);

export function originOf(context: HandlerContext): CallOrigin {
  const origin = context.values.get(callOriginKey);
  if (origin === undefined) throw new SandboxError("internal", "call without an origin");
  return origin;
}

/**
 * The user on whose behalf a call acts: the named one, else the default one.
 * @throws SandboxError unauthenticated when the default user does not exist.
 */
export async function userOf(origin: CallOrigin): Promise<User> {
  if (origin.namedUser !== undefined) return origin.namedUser;
  const name = origin.daemon.settings.current.defaultUser;
  const user = (await origin.daemon.accounts.read()).users.get(name);
  if (user === undefined) {
    throw new SandboxError("unauthenticated", `invalid default user: '${name}'`);
  }
  return user;
}

/**
 * A requested path for the user of a call: an absolute one as it was given, any other one tidied.
 * @throws SandboxError invalid_argument
 */
export async function pathFor(daemon: Daemon, user: User, path: string): Promise<string> {
  const workdir = daemon.settings.current.defaultWorkdir;
  const absolute = resolvePath(path, { userName: user.name, home: user.home, workdir });
  // The kernel refuses it, whatever its names mean.
  if (absolute.length > MAX_PATH_CHARACTERS) return absolute;
  const meant = await fromWirePath(absolute);
  return path.startsWith("/") || path === "" ? meant : tidyPath(meant);
}

const DEFAULT_KEEPALIVE_S = 90;
/** A day: longer than any proxy waits, and far below what a timer can hold. */
const MAX_KEEPALIVE_S = 86_400;

/** How long a stream may be silent before it sends a keepalive, in milliseconds. */
export function keepaliveMs(header: Headers): number {
  const text = header.get(KEEPALIVE_INTERVAL_HEADER) ?? "";
  const seconds = /^[0-9]{1,10}$/.test(text) ? Number(text) : 0;
  return (seconds === 0 ? DEFAULT_KEEPALIVE_S : Math.min(seconds, MAX_KEEPALIVE_S)) * 1000;
}

/** Translates what an operation throws, and ends unary calls at their deadline. */
export const translateErrors: Interceptor = (next) => async (request) => {
  try {
    if (request.stream) {
      const response = await next(request);
      return response.stream ? translatedStream(response, request.signal) : response;
    }
    return await orAborted(next(request), request.signal);
  } catch (error) {
    throw toConnectError(error, request.signal);
  }
};

function translatedStream(response: StreamResponse, signal: AbortSignal): StreamResponse {
  async function* messages(): AsyncGenerator<
    StreamResponse["message"] extends AsyncIterable<infer M> ? M : never
  > {
    try {
      yield* response.message;
    } catch (error) {
      throw toConnectError(error, signal);
    }
  }
  return { ...response, message: messages() };
}

/** The result of the work, which goes on when the call is over: then the reason of that is thrown. */
export async function orAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  const { promise, reject } = Promise.withResolvers<never>();
  const onAbort = () => reject(abortReason(signal));
  if (signal.aborted) onAbort();
  else signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await Promise.race([work, promise]);
  } finally {
    signal.removeEventListener("abort", onAbort);
  }
}

export function abortReason(signal: AbortSignal): Error {
  return signal.reason instanceof Error ? signal.reason : new Error("the call was aborted");
}

/** Any failure of a call as Connect's own error. */
function toConnectError(error: unknown, signal: AbortSignal): ConnectError {
  if (error instanceof SandboxError) {
    return new ConnectError(
      toWireText(error.message),
      CONNECT_CODES[error.code],
      undefined,
      undefined,
      error,
    );
  }
  if (signal.aborted && (error === signal.reason || isAbort(error))) {
    const isLate = ConnectError.from(signal.reason).code === Code.DeadlineExceeded;
    return isLate
      ? new ConnectError("context deadline exceeded", Code.DeadlineExceeded)
      : new ConnectError("context canceled", Code.Canceled);
  }
  if (error instanceof ConnectError) return error;
  return new ConnectError("internal error", Code.Internal, undefined, undefined, error);
}

function isAbort(error: unknown): boolean {
  return error instanceof Error && error.name === "AbortError";
}
