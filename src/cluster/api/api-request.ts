/** One request to the API server of Kubernetes, over Node's own HTTP client, and its bounds. */

import {
  Agent as HttpAgent,
  request as httpRequest,
  type ClientRequest,
  type IncomingMessage,
} from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { SandboxError, toSandboxError } from "../../common/errors.ts";
import type { ClusterAddress } from "./address.ts";

const CALL_TIMEOUT_MS = 15_000;
/** Of a call while the API server is silent: a client waits for several in a row. */
const SILENT_SHARE = 0.2;
const MAX_SOCKETS = 64;
/** A dead connection of a watch is noticed by the kernel's probes. */
const PROBE_MS = 15_000;
const OK = 200;
/** Until a client of ours may try again, where the API server does not tell. */
export const RETRY_SECONDS = 2;
export const SUBJECT = "Kubernetes API";

export interface ApiCall {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Below the namespace, such as `pods/NAME`; kinds outside of the core group name theirs. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
}

export interface Sender extends Disposable {
  /** The reply as it begins; a watch is not bounded from then on. */
  open(call: ApiCall, path: string, kind: { readonly isWatch: boolean }): Promise<IncomingMessage>;
}

export function createSender(address: ClusterAddress): Sender {
  const isSecure = address.url.protocol === "https:";
  const options = { keepAlive: true, maxSockets: MAX_SOCKETS };
  const agent = isSecure ? new HttpsAgent(options) : new HttpAgent(options);
  const send = isSecure ? httpsRequest : httpRequest;
  const state: AnswerState = { answers: 0, isSilent: false, isProbed: false };
  return {
    async open(call, path, { isWatch }) {
      const [token, ca] = [await address.readToken(), await address.readCa?.()];
      const target = toTarget(address.url, path, call.query);
      const payload = call.body === undefined ? undefined : JSON.stringify(call.body);
      const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>();
      const outgoing = send(target, {
        agent,
        // Connections that were made under other certificates are not used again.
        ...(isSecure && ca !== undefined && { ca }),
        method: call.method,
        headers: {
          accept: "application/json",
          "user-agent": "sandbox-mcp",
          ...(token !== undefined && { authorization: `Bearer ${token}` }),
          // Node sends the body of a DELETE without a length of its own accord.
          ...(payload !== undefined && {
            "content-type": typeOf(call),
            "content-length": String(Buffer.byteLength(payload)),
          }),
        },
        ...(call.signal !== undefined && { signal: call.signal }),
      });
      const timeoutMs = address.callTimeoutMs ?? CALL_TIMEOUT_MS;
      const isUndone = call.method === "POST";
      const onGivenUp = () => reject(toApiError(noAnswer()));
      const timer = limitWait(outgoing, state, { timeoutMs, isUndone, onGivenUp });
      outgoing.once("socket", (socket) => socket.setKeepAlive(true, PROBE_MS));
      outgoing.once("response", (reply) => {
        if (isWatch && reply.statusCode === OK) clearTimeout(timer);
        reply.once("close", () => clearTimeout(timer));
        resolve(reply);
      });
      // A reply that breaks off tells its reader too.
      outgoing.on("error", (error) => reject(toApiError(error)));
      // One that switches protocols unasked ends the connection without an error.
      outgoing.once("close", () => {
        clearTimeout(timer);
        reject(away(`${SUBJECT}: closed without a reply`));
      });
      outgoing.end(payload);
      return promise;
    },
    [Symbol.dispose]: () => agent.destroy(),
  };
}

/** What the calls of one client find out for each other. */
interface AnswerState {
  answers: number;
  /** Since a call waited for its whole time, and none was answered meanwhile. */
  isSilent: boolean;
  /** Whether a call that its caller has given up is still open. */
  isProbed: boolean;
}

interface WaitLimit {
  readonly timeoutMs: number;
  /** A caller undoes a create that failed at once: it must not be carried out after that. */
  readonly isUndone: boolean;
  /** Called in a silence, when its caller is to wait no longer. */
  readonly onGivenUp: () => void;
}

/** Returns the timer of the whole time. */
function limitWait(
  outgoing: ClientRequest,
  state: AnswerState,
  { timeoutMs, isUndone, onGivenUp }: WaitLimit,
): NodeJS.Timeout {
  const { answers } = state;
  let isGivenUp = false;
  const end = () => {
    if (state.answers === answers) state.isSilent = true;
    outgoing.destroy(noAnswer());
  };
  const giveUp = () => {
    isGivenUp = true;
    onGivenUp();
    if (isUndone || state.isProbed) {
      outgoing.destroy();
      return;
    }
    // One stays open: its answer tells that the API server is slow, and not away.
    state.isProbed = true;
    outgoing.once("close", () => (state.isProbed = false));
  };
  const early = state.isSilent ? setTimeout(giveUp, timeoutMs * SILENT_SHARE) : undefined;
  outgoing.once("response", (reply) => {
    state.answers += 1;
    state.isSilent = false;
    clearTimeout(early);
    if (isGivenUp) reply.destroy();
  });
  outgoing.once("close", () => clearTimeout(early));
  return setTimeout(end, timeoutMs);
}

function noAnswer(): Error {
  return Object.assign(new Error("no answer"), { code: "ETIMEDOUT" });
}

/** Below the path of the address, which is that of a proxy for several clusters. */
function toTarget(address: URL, path: string, query: ApiCall["query"] = {}): URL {
  const url = new URL(address);
  url.pathname = address.pathname.replace(/\/+$/, "") + path;
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return url;
}

function typeOf({ method, body }: ApiCall): string {
  if (method !== "PATCH") return "application/json";
  return Array.isArray(body) ? "application/json-patch+json" : "application/merge-patch+json";
}

/** A connection that fails for whatever reason means that the API server is away. */
export function toApiError(error: unknown): SandboxError {
  const fault = toSandboxError(error, SUBJECT);
  if (fault.code === "canceled") return fault;
  return away(fault.message, error);
}

/** The API server is away, or busy: a client may try again. */
export function away(
  message: string,
  cause?: unknown,
  retryAfterSeconds: number | undefined = RETRY_SECONDS,
): SandboxError {
  const word = "sandbox_create_failed";
  return new SandboxError("unavailable", message, { cause, word, retryAfterSeconds });
}
