/**
 * Calls to the API server of Kubernetes: few verbs on few kinds of one namespace, over Node's own
 * HTTP client. Replies are bounded; a fault carries the code of the program, and `unavailable` where
 * the API server is away.
 */

import type { IncomingMessage } from "node:http";
import { hasErrorCode, isCode, SandboxError, type ErrorCode } from "../../common/errors.ts";
import { readBounded } from "../../common/http.ts";
import { tryParseJson } from "../../common/json.ts";
import { z } from "../../common/schema.ts";
import type { ClusterAddress } from "./address.ts";
import {
  away,
  createSender,
  RETRY_SECONDS,
  SUBJECT,
  toApiError,
  type ApiCall,
} from "./api-request.ts";
import { busyCause, repeatWhileBusy } from "./repeat-busy.ts";

export type { ApiCall } from "./api-request.ts";

/** A page of a list, or one object; lists ask for smaller pages beyond it. */
const MAX_REPLY_BYTES = 64 * 1024 * 1024;
const MAX_MESSAGE_CHARACTERS = 300;
/** What a client of ours is told at most. */
const MAX_RETRY_SECONDS = 60;
const MS_PER_SECOND = 1_000;

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
  const sender = createSender(address);

  async function answer(call: ApiCall, path: string): Promise<unknown> {
    const reply = await sender.open(call, path, { isWatch: false });
    const body = await readJson(reply, address.maxReplyBytes);
    const status = reply.statusCode ?? 0;
    if (status < 200 || status > 299) throw toRefusal(call, reply, body);
    if (body === undefined) throw away(`${SUBJECT}: ${status} without an object`);
    return body;
  }

  return {
    namespace: address.namespace,
    async call(call) {
      const path = pathOf(call.path, address.namespace);
      try {
        return await repeatWhileBusy(() => answer(call, path), call.signal);
      } catch (error) {
        throw error instanceof SandboxError ? error : toApiError(error);
      }
    },
    read: (path) => answer({ method: "GET", path }, path),
    async watch(call, signal) {
      const path = pathOf(call.path, address.namespace);
      const asked = { ...call, method: "GET" } as const;
      const query = { ...call.query, watch: "true" };
      const reply = await sender.open({ ...asked, query, signal }, path, { isWatch: true });
      if (reply.statusCode === OK) return reply;
      throw toRefusal(asked, reply, await readJson(reply, address.maxReplyBytes));
    },
    [Symbol.dispose]: () => sender[Symbol.dispose](),
  };
}

/** Below the namespace and the group of its kind. */
function pathOf(path: string, namespace: string): string {
  if (path.startsWith("/")) return path;
  const group = GROUPS[path.split("/")[0] ?? ""];
  return `/${group === undefined ? "api/v1" : `apis/${group}`}/namespaces/${namespace}/${path}`;
}

/** What the API server says; undefined for what is no JSON, as of a proxy before it. */
async function readJson(
  reply: IncomingMessage,
  maxBytes: number = MAX_REPLY_BYTES,
): Promise<unknown> {
  try {
    const body = await readBounded(reply, maxBytes, SUBJECT);
    // The API server is trusted: its objects are not measured.
    return tryParseJson(body.toString("utf8"));
  } catch (error) {
    throw toApiError(error);
  } finally {
    reply.destroy();
  }
}

/** Undefined where the reply does not tell it. */
function retryAfterOf({ headers }: IncomingMessage): number | undefined {
  const text = headers["retry-after"] ?? "";
  return /^[0-9]{1,9}$/.test(text) ? Math.min(Number(text), MAX_RETRY_SECONDS) : undefined;
}

const OK = 200;
/** Of those that are none of success. */
const MIN_FAULT = 400;
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

function toRefusal({ method }: ApiCall, reply: IncomingMessage, body: unknown): SandboxError {
  const status = reply.statusCode ?? 0;
  const { message = "", reason = "" } = statusSchema.safeParse(body).data ?? {};
  const text = `${SUBJECT}: ${status} ${message.slice(0, MAX_MESSAGE_CHARACTERS)}`;
  const retryAfterSeconds = retryAfterOf(reply);
  // It is busy with requests, of this client or of others: no limit of a client of ours.
  if (status === BUSY && retryAfterSeconds !== undefined) {
    return away(text, busyCause(text, retryAfterSeconds * MS_PER_SECOND), retryAfterSeconds);
  }
  if (status >= 500 || status === BUSY) return away(text, undefined, retryAfterSeconds);
  // A login page or another proxy: the API server itself redirects no client.
  if (status < MIN_FAULT) return away(`${text}redirected to another address`);
  // Creates at once collide at a ResourceQuota, whose new state is an object with a version.
  if (reason === "Conflict" && method === "POST") return away(text, busyCause(text, 0));
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
  // An admission policy, or the API server itself, takes no such object: its reason is for the operator.
  if (method === "POST" && (status === 400 || status === 422)) {
    return new SandboxError("unavailable", text, { word: "sandbox_create_failed" });
  }
  return new SandboxError(CODES[status] ?? "internal", text);
}

/** Whether a record was changed by another client meanwhile. */
export function isConflict(error: unknown): boolean {
  return hasErrorCode(error, "failed_precondition");
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
