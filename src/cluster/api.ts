/**
 * Calls to the API server of Kubernetes: few verbs on few kinds of one namespace, over Node's own
 * HTTP client. Replies are bounded; a fault carries the code of the program, and `unavailable` where
 * the API server is away.
 */

import { Agent as HttpAgent, request as httpRequest, type IncomingMessage } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import { isCode, SandboxError, toSandboxError, type ErrorCode } from "../common/errors.ts";
import { readBounded } from "../common/http.ts";
import { z } from "../common/schema.ts";
import type { ClusterAddress } from "./address.ts";

const CALL_TIMEOUT_MS = 15_000;
/** A page of a list, or one object; lists ask for smaller pages beyond it. */
const MAX_REPLY_BYTES = 64 * 1024 * 1024;
const MAX_SOCKETS = 64;
/** A dead connection of a watch is noticed by the kernel's probes. */
const PROBE_MS = 15_000;
const SUBJECT = "Kubernetes API";
const MAX_MESSAGE_CHARACTERS = 300;
const RETRY_SECONDS = 2;

export interface ApiCall {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Below the namespace, such as `pods/NAME`; kinds outside of the core group name theirs. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: unknown;
  readonly signal?: AbortSignal | undefined;
}

export interface ClusterApi extends Disposable {
  readonly namespace: string;
  /**
   * @throws SandboxError not_found, already_exists, failed_precondition for a version that is not
   * the present one, resource_exhausted for a quota, unavailable, also for a want of rights.
   */
  call(call: ApiCall): Promise<unknown>;
  /** The body of a watch as it comes; ends with the signal. */
  watch(call: Pick<ApiCall, "path" | "query">, signal: AbortSignal): Promise<IncomingMessage>;
  /** The reply to a path of the server itself, such as `/version`. */
  read(path: string): Promise<unknown>;
}

/** Of kinds that are not in the core group. */
const GROUPS: Readonly<Record<string, string>> = {
  leases: "coordination.k8s.io/v1",
  networkpolicies: "networking.k8s.io/v1",
};

export function createClusterApi(address: ClusterAddress): ClusterApi {
  const isSecure = address.url.protocol === "https:";
  const options = { keepAlive: true, maxSockets: MAX_SOCKETS };
  const agent = isSecure ? new HttpsAgent(options) : new HttpAgent(options);
  const send = isSecure ? httpsRequest : httpRequest;

  async function open(call: ApiCall, path: string, isWatch: boolean): Promise<IncomingMessage> {
    const [token, ca] = [await address.readToken(), await address.readCa?.()];
    const target = toTarget(new URL(path, address.url), call.query);
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
    const timer = setTimeout(
      () => outgoing.destroy(Object.assign(new Error("no answer"), { code: "ETIMEDOUT" })),
      address.callTimeoutMs ?? CALL_TIMEOUT_MS,
    );
    outgoing.once("socket", (socket) => socket.setKeepAlive(true, PROBE_MS));
    outgoing.once("response", (reply) => {
      if (isWatch && reply.statusCode === OK) clearTimeout(timer);
      reply.once("close", () => clearTimeout(timer));
      resolve(reply);
    });
    outgoing.once("error", (error) => {
      clearTimeout(timer);
      reject(toApiError(error));
    });
    // A reply that breaks off tells its reader.
    outgoing.on("error", () => undefined);
    // One that switches protocols unasked ends the connection without an error.
    outgoing.once("close", () => {
      clearTimeout(timer);
      reject(away(`${SUBJECT}: closed without a reply`));
    });
    outgoing.end(payload);
    return promise;
  }

  async function answer(call: ApiCall, path: string): Promise<unknown> {
    const reply = await open(call, path, false);
    const body = await readJson(reply, address.maxReplyBytes);
    const status = reply.statusCode ?? 0;
    if (status < 200 || status > 299) throw toRefusal(status, body);
    if (body === undefined) throw away(`${SUBJECT}: ${status} without an object`);
    return body;
  }

  return {
    namespace: address.namespace,
    call: (call) => answer(call, pathOf(call.path, address.namespace)),
    read: (path) => answer({ method: "GET", path }, path),
    async watch(call, signal) {
      const path = pathOf(call.path, address.namespace);
      const query = { ...call.query, watch: "true" };
      const reply = await open({ ...call, query, method: "GET", signal }, path, true);
      if (reply.statusCode === OK) return reply;
      throw toRefusal(reply.statusCode ?? 0, await readJson(reply, address.maxReplyBytes));
    },
    [Symbol.dispose]: () => agent.destroy(),
  };
}

function toTarget(url: URL, query: ApiCall["query"] = {}): URL {
  for (const [name, value] of Object.entries(query)) url.searchParams.set(name, value);
  return url;
}

/** Below the namespace and the group of its kind. */
function pathOf(path: string, namespace: string): string {
  if (path.startsWith("/")) return path;
  const group = GROUPS[path.split("/")[0] ?? ""];
  return `/${group === undefined ? "api/v1" : `apis/${group}`}/namespaces/${namespace}/${path}`;
}

function typeOf({ method, body }: ApiCall): string {
  if (method !== "PATCH") return "application/json";
  return Array.isArray(body) ? "application/json-patch+json" : "application/merge-patch+json";
}

/** What the API server says; undefined for what is no JSON, as of a proxy before it. */
async function readJson(
  reply: IncomingMessage,
  maxBytes: number = MAX_REPLY_BYTES,
): Promise<unknown> {
  try {
    const body = await readBounded(reply, maxBytes, SUBJECT);
    return parseObject(body.toString("utf8"));
  } catch (error) {
    throw toApiError(error);
  } finally {
    reply.destroy();
  }
}

/** The API server is trusted: its objects are not measured. */
export function parseObject(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** A connection that fails for whatever reason means that the API server is away. */
function toApiError(error: unknown): SandboxError {
  const fault = toSandboxError(error, SUBJECT);
  if (fault.code === "canceled") return fault;
  return away(fault.message, error);
}

function away(message: string, cause?: unknown): SandboxError {
  return new SandboxError("unavailable", message, {
    cause,
    word: "sandbox_create_failed",
    retryAfterSeconds: RETRY_SECONDS,
  });
}

const OK = 200;
const MISSING = 404;
const GONE = 410;
const BUSY = 429;
const EXPIRED = "EXPIRED";
const FORBIDDEN = "FORBIDDEN";

const statusSchema = z.object({ message: z.string().optional(), reason: z.string().optional() });

const CODES: Readonly<Record<number, ErrorCode>> = {
  400: "internal",
  404: "not_found",
  409: "failed_precondition",
  422: "internal",
};

function toRefusal(status: number, body: unknown): SandboxError {
  const { message = "", reason = "" } = statusSchema.safeParse(body).data ?? {};
  const text = `${SUBJECT}: ${status} ${message.slice(0, MAX_MESSAGE_CHARACTERS)}`;
  // It is busy with requests, of this client or of others: no limit of a client of ours.
  if (status >= 500 || status === BUSY) return away(text);
  // A proxy before it, or a server that is starting, misses everything: objects are not gone.
  if (status === MISSING && reason !== "NotFound") return away(text);
  if (status === GONE) {
    const cause = Object.assign(new Error(text), { code: EXPIRED });
    return new SandboxError("failed_precondition", text, { cause });
  }
  if (reason === "AlreadyExists") return new SandboxError("already_exists", text);
  if (status === 403 && /exceeded quota/i.test(message)) {
    const options = {
      word: "sandbox_capacity_unavailable",
      retryAfterSeconds: RETRY_SECONDS,
    } as const;
    return new SandboxError("resource_exhausted", text, options);
  }
  // Rights of this front, not of its client.
  if (status === 401 || status === 403) {
    return away(text, Object.assign(new Error(text), { code: FORBIDDEN }));
  }
  return new SandboxError(CODES[status] ?? "internal", text);
}

/** Whether a record was changed by another client meanwhile. */
export function isConflict(error: unknown): boolean {
  return error instanceof SandboxError && error.code === "failed_precondition";
}

/** Whether the version of a list or a watch is no longer known to the API server. */
export function isExpired(error: unknown): boolean {
  return isCode(error, EXPIRED);
}

/** Whether this front lacks the right. */
export function isForbidden(error: unknown): boolean {
  return isCode(error, FORBIDDEN);
}

/** Whether a reply was larger than replies may be. */
export function isTooLarge(error: unknown): boolean {
  return error instanceof SandboxError && hasErrorCode(error.cause, "resource_exhausted");
}

export function hasErrorCode(error: unknown, code: ErrorCode): boolean {
  return error instanceof SandboxError && error.code === code;
}
