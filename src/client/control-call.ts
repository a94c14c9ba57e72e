/** One call of the control API: its address, its repeats, its checked reply. */

import { STATUS_CODES } from "node:http";
import { createBackoff } from "../common/backoff.ts";
import { SandboxError } from "../common/errors.ts";
import { faultsOf, type z } from "../common/schema.ts";
import { unexpectedReply } from "../common/unexpected-reply.ts";
import { API_KEY_HEADER, NEXT_TOKEN_HEADER } from "../wire/headers.ts";
import {
  claimedError,
  exchange,
  isMissing,
  isPage,
  parseReply,
  pause,
  replyError,
  type Connection,
  type Exchange,
  type HttpReply,
} from "./http.ts";
import { redactBody } from "./redact.ts";
import type { ServiceTime } from "./service-time.ts";

export interface ControlOptions {
  readonly connection: Connection;
  /** Base URL; a path in it is kept as prefix. */
  readonly url: string;
  readonly apiKey: string;
  /** Learns from the date of each reply. */
  readonly time: ServiceTime;
}

export type Call = Pick<Exchange, "method" | "signal" | "isIdempotent" | "subject"> & {
  readonly path: string;
  readonly json?: unknown;
  /** How long the service should wait for what takes long. */
  readonly waitSeconds?: number | undefined;
};

export type Send = (call: Call) => Promise<HttpReply>;

export interface ControlCaller {
  /** The reply, whatever its status. */
  readonly send: Send;
  /** The body of a reply below 300. */
  readonly read: <T>(call: ReadCall, schema: z.ZodType<T>) => Promise<T>;
  /** As `read`, with the token of the next page, which is never that of the page itself. */
  readonly readPage: <T>(
    call: PageCall,
    schema: z.ZodType<T>,
  ) => Promise<{ readonly body: T; readonly nextToken?: string }>;
  /** Deletes; returns whether there was something to delete, undefined where that is not known. */
  readonly remove: (call: ReadCall) => Promise<boolean | undefined>;
  /**
   * The reply of a request that a sandbox in transition refuses with 409, which means that nothing
   * was done: it is safe to repeat, whatever it is.
   * @param isFinal whether a refusal has another reason and stands.
   */
  readonly sendUntilSettled: (call: Call, options?: SettleOptions) => Promise<HttpReply>;
}

type ReadCall = Pick<Call, "path" | "signal" | "subject">;

/** The token of the page; undefined for the first one. */
type PageCall = ReadCall & { readonly token: string | undefined };

interface SettleOptions {
  readonly isFinal?: (refusal: HttpReply) => Promise<boolean> | boolean;
  /** Instead of the caller's own. */
  readonly send?: Send;
}

/** Ten thousand log records of the largest size allowed by contract do not occur in practice. */
const MAX_REPLY_BYTES = 16 * 1024 * 1024;
/** A state transition takes a second or two; after this time the refusal is returned. */
const MAX_TRANSITION_MS = 10_000;
const TRANSITION_RETRY_MS = { first: 250, longest: 2_000 } as const;
const CONFLICT = 409;
const SAME_PAGE = "the next page has the token of this page";

export const WRITING = { method: "POST", isIdempotent: false } as const;
export const REPEATABLE = { method: "POST", isIdempotent: true } as const;
const READING = { method: "GET", isIdempotent: true } as const;
const DELETING = { method: "DELETE", isIdempotent: true } as const;

export function createControlCaller(options: ControlOptions): ControlCaller {
  const base = options.url.replace(/\/+$/, "");
  const { clock } = options.connection;

  const send: Send = async ({ path, json, waitSeconds, ...call }) => {
    const headers = {
      [API_KEY_HEADER]: options.apiKey,
      ...(json !== undefined && { "content-type": "application/json" }),
      ...(waitSeconds !== undefined && { prefer: `wait=${waitSeconds}` }),
    };
    const sentAtMs = clock.elapsed();
    const reply = await exchange(options.connection, {
      ...call,
      url: `${base}${path}`,
      headers,
      ...(json !== undefined && { body: JSON.stringify(json) }),
      maxBytes: MAX_REPLY_BYTES,
    });
    options.time.observe(reply.headers["date"], sentAtMs);
    if (claimedError(reply.body) === undefined) return reply;
    return { ...reply, body: redactBody(reply.body, headers) };
  };

  return {
    send,
    async read(call, schema) {
      return parseBody(await send({ ...READING, ...call }), schema, call.subject);
    },
    async readPage({ token: asked, ...call }, schema) {
      const reply = await send({ ...READING, ...call });
      const token = reply.headers[NEXT_TOKEN_HEADER];
      const body = parseBody(reply, schema, call.subject);
      if (typeof token !== "string" || token === "") return { body };
      // A caller who follows it would get pages without end.
      if (token === asked) throw unexpectedReply(SAME_PAGE, { subject: call.subject });
      return { body, nextToken: token };
    },
    async remove(call) {
      const reply = await send({ ...DELETING, ...call });
      if (isMissing(reply)) return reply.isRepeat === true ? undefined : false;
      requireDone(reply, call.subject);
      return true;
    },
    async sendUntilSettled(call, { isFinal, send: sendOnce = send } = {}) {
      const deadlineMs = clock.elapsed() + MAX_TRANSITION_MS;
      const backoff = createBackoff(TRANSITION_RETRY_MS.first, TRANSITION_RETRY_MS.longest);
      let isRepeat = false;
      for (;;) {
        const reply = await sendOnce(call);
        isRepeat ||= reply.isRepeat === true;
        if (reply.status !== CONFLICT || (await isFinal?.(reply)) === true)
          return { ...reply, isRepeat };
        if (clock.elapsed() >= deadlineMs) throw transitionError(call.subject, reply);
        await pause(clock, backoff.next(), call);
      }
    },
  };
}

function transitionError(subject: string, reply: HttpReply): SandboxError {
  const error = replyError(subject, reply);
  const hint = "It is changing its state: repeat this call in a few seconds.";
  return new SandboxError(error.code, error.message, { cause: error, hint });
}

/** Answers of a service for a path that it does not know; 404 also for a missing object. */
const UNKNOWN_STATUSES: ReadonlySet<number> = new Set([404, 405, 501]);

/**
 * Sends to a route that has two versions, of which a service may know only one. The version that
 * was accepted is asked first from then on. Where both are refused, the older one's reply counts.
 */
export function createVersionedSend(send: Send): Send {
  let known: "older" | "newer" = "older";
  return async (call) => {
    const versions = { older: call, newer: { ...call, path: `/v2${call.path}` } };
    const other = known === "older" ? "newer" : "older";
    const first = await send(versions[known]);
    if (!UNKNOWN_STATUSES.has(first.status)) return first;
    const second = await send(versions[other]);
    if (UNKNOWN_STATUSES.has(second.status)) return known === "older" ? first : second;
    known = other;
    return second;
  };
}

/** The query of a path; empty without a value. */
export function queryOf(values: Readonly<Record<string, string | number | undefined>>): string {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(values)) {
    if (value !== undefined) query.set(name, String(value));
  }
  return query.size === 0 ? "" : `?${query.toString()}`;
}

/** @throws SandboxError for a reply of 300 and above, and for what a proxy or an error body says below that. */
export function requireAccepted(reply: HttpReply, subject: string): void {
  const { status, headers, body } = reply;
  if (status >= 300) throw controlError(subject, reply);
  const said = claimedError(body);
  if (said !== undefined) throw unexpectedReply(`${status} with ${said}`, { subject });
  if (isPage(headers, body)) throw unexpectedReply(`${status} with a page of HTML`, { subject });
}

const NO_CONTENT = 204;
/** Of other makers: with nothing, the status in words or a value of JSON. Official clients read no other. */
const OTHER_SUCCESS: ReadonlySet<number> = new Set([200, 201]);

/**
 * For a request whose reply has no content: nothing but its status says that it was carried out.
 * @throws SandboxError as `requireAccepted`, and for any other status and for a text.
 */
export function requireDone(reply: HttpReply, subject: string): void {
  requireAccepted(reply, subject);
  const { status, body } = reply;
  if (status === NO_CONTENT) return;
  if (!OTHER_SUCCESS.has(status)) {
    throw unexpectedReply(`${status} does not say that it was done`, { subject });
  }
  const text = body.toString("utf8").trim();
  // Frameworks send the status in words where nothing else is given.
  if (text === "" || text === STATUS_CODES[status]) return;
  if (parseReply(body, subject) === undefined) {
    throw unexpectedReply(`${status} with ${text}`, { subject });
  }
}

const DISK_FULL = 507;

/** A reply of 300 and above as an error. A full disk is that of the service, not of a sandbox. */
function controlError(subject: string, reply: HttpReply): SandboxError {
  const error = replyError(subject, reply);
  if (reply.status !== DISK_FULL) return error;
  const hint =
    "The disk of the service is full, not that of a sandbox: delete snapshots and sandboxes that " +
    "are not needed, or tell the user.";
  return new SandboxError(error.code, error.message, { hint });
}

/** The body of an accepted reply. @throws SandboxError internal for an unexpected body. */
export function parseBody<T>(reply: HttpReply, schema: z.ZodType<T>, subject: string): T {
  requireAccepted(reply, subject);
  const parsed = schema.safeParse(parseReply(reply.body, subject));
  if (parsed.success) return parsed.data;
  throw unexpectedReply(faultsOf(parsed.error), { subject });
}
