/** The control API: key, path, schema, operation, reply, in this order. */

import type { IncomingMessage, ServerResponse } from "node:http";
import {
  createInFlight,
  IN_FLIGHT_TEXT,
  type HeldBytes,
  type InFlight,
} from "../common/concurrency.ts";
import { errorText, hasErrorCode, SandboxError } from "../common/errors.ts";
import { readBodyInTurns, sendJson } from "../common/http.ts";
import { parseJson } from "../common/json.ts";
import type { Logger } from "../common/log.ts";
import { readQuery } from "../common/query.ts";
import { faultsOf, type z } from "../common/schema.ts";
import { createStartLimiter, type StartLimiter } from "../common/start-limiter.ts";
import type { KeyCheck } from "../sandboxes/keys.ts";
import type { Sandboxes } from "../sandboxes/sandboxes.ts";
import { parseSandboxId } from "../wire/address.ts";
import { findBuilding } from "../wire/messages.ts";
import { retryHeaders } from "../wire/retry.ts";
import { RATE_LIMIT_BURST, requireKey, type RateLimit } from "./access.ts";
import { matchRoute, type Match } from "./match.ts";
import { toFault } from "./reply.ts";
import { readWaitMs, type RouteReply } from "./route.ts";
import { ROUTES } from "./routes/index.ts";
import type { ServiceMetrics } from "./service-metrics.ts";
import { originOf, takeUpload, UPLOAD_PATH, uploadToken } from "./uploads.ts";
import { createVolumeContent, isVolumeContent } from "./volume-content.ts";

/** As the wire allows; a body is held in memory while it is parsed. */
const MAX_BODY_BYTES = 16 * 1024 * 1024;
const TOO_LARGE_STATUS = 413;
const TOO_MANY_STATUS = 429;
const INTERNAL_STATUS = 500;
const NO_CONTENT_STATUS = 204;

const JSON_PATTERN = /^application\/json\s*(?:;|$)/i;

export interface ControlOptions {
  readonly sandboxes: Pick<Sandboxes, "of" | "uploads" | "openVolume">;
  readonly log: Logger;
  readonly keys: KeyCheck;
  readonly domain: string | null;
  readonly rateLimit: RateLimit;
  /** Counts every call, where metrics are served. */
  readonly metrics?: Pick<ServiceMetrics, "record"> | undefined;
}

export type ControlHandler = (request: IncomingMessage, response: ServerResponse) => Promise<void>;

interface Answer {
  /** The pattern that matched; never what the client sent. */
  readonly path: string;
  readonly sandboxId?: string | undefined;
  /** Undefined without a key. */
  readonly team?: string;
  readonly reply: Omit<RouteReply, "status"> & {
    readonly status: number;
    readonly retryAfterSeconds?: number;
  };
  readonly error?: unknown;
}

/** Answers every request, also a faulty one; it never rejects. */
export function createControl(options: ControlOptions): ControlHandler {
  const inFlight = createInFlight();
  const begin = createTeamStarts();
  const content = createVolumeContent(options);
  return async (request, response) => {
    const beganMs = performance.now();
    if (isVolumeContent(request)) {
      const { status, team } = await content(request, response);
      if (team !== undefined) holdUnread(response, team, inFlight);
      const durationMs = performance.now() - beganMs;
      const { method = "GET" } = request;
      options.metrics?.record({ method, path: "/volumecontent/*", status, durationMs });
      return;
    }
    const gone = new AbortController();
    response.once("close", () => gone.abort());
    using held = inFlight.open();
    const call = { request, signal: gone.signal, held, begin };
    const { path, sandboxId, team, reply, error } = await answer(call, options);
    // Clients parse a body unless they are told that it is empty.
    const isEmpty = reply.body === undefined && reply.status !== NO_CONTENT_STATUS;
    const headers = {
      ...reply.headers,
      ...retryHeaders(reply.status, reply.retryAfterSeconds),
      ...(isEmpty && { "content-length": "0" }),
    };
    if (reply.body !== undefined) sendJson(response, reply.status, { body: reply.body, headers });
    else if (!response.destroyed) response.writeHead(reply.status, headers).end();
    if (team !== undefined) holdUnread(response, team, inFlight);
    const durationMs = performance.now() - beganMs;
    const { method = "GET" } = request;
    options.metrics?.record({ method, path, status: reply.status, durationMs });
    const entry = {
      op: `${method} ${path}`,
      outcome: error === undefined ? "ok" : "fault",
      status: reply.status,
      durationMs: Math.round(durationMs),
      sandboxId,
    };
    if (error === undefined) options.log.debug(entry, "control");
    else if (reply.status < INTERNAL_STATUS || isExpected(error))
      options.log.debug({ ...entry, err: error }, "control");
    else options.log.warn({ ...entry, err: error }, "control");
  };
}

/** A client may ask for what the service does not offer, or for a template until it is built. */
function isExpected(error: unknown): boolean {
  if (!(error instanceof SandboxError)) return false;
  return error.code === "unimplemented" || findBuilding(error.message) !== undefined;
}

/** A reply stays in memory until its reader took it; the last of too many is cut off. */
function holdUnread(response: ServerResponse, team: string, inFlight: InFlight): void {
  const bytes = response.destroyed ? 0 : response.writableLength;
  if (bytes === 0) return;
  const held = inFlight.open();
  response.once("close", () => held[Symbol.dispose]());
  if (!held.add(team, bytes)) response.destroy();
}

interface Call {
  readonly request: IncomingMessage;
  /** Fires when the client is gone. */
  readonly signal: AbortSignal;
  readonly held: HeldBytes;
  readonly begin: (team: string) => Promise<void>;
}

/**
 * Calls of a team that begin in one turn of the event loop. Most write to the database, and a crowd of
 * those of one team would hold up every call of the others by all of its writes.
 */
const CALLS_PER_TURN = 4;

/** One limiter for each team that has a key, so there are few. */
function createTeamStarts(): Call["begin"] {
  const limiters = new Map<string, StartLimiter>();
  return async (team) => {
    const limiter = limiters.get(team) ?? createStartLimiter(CALLS_PER_TURN);
    limiters.set(team, limiter);
    await limiter();
  };
}

async function answer(
  { request, signal, held, begin }: Call,
  options: ControlOptions,
): Promise<Answer> {
  const { method = "GET", url = "/" } = request;
  const { path: rawPath, query } = splitTarget(url);
  const token = uploadToken(method, rawPath);
  if (token !== undefined) {
    const { uploads } = options.sandboxes;
    return { path: UPLOAD_PATH, ...(await takeUpload(uploads, { request, signal }, token)) };
  }
  const match = matchRoute(ROUTES, method, rawPath);
  let facts: Omit<Answer, "reply"> =
    match instanceof SandboxError
      ? { path: "(unknown)" }
      : { path: match.route.path, sandboxId: parseSandboxId(match.params["sandboxID"] ?? "") };
  try {
    // The key comes before everything: a caller without one learns nothing about paths or bodies.
    const team = requireKey(request.headers, options.keys);
    facts = { ...facts, team };
    if (match instanceof SandboxError) throw match;
    // The body is read to its end on every route: a request that turns out malformed does nothing.
    const body = await readBounded(request, (bytes) => held.add(team, bytes));
    if (body === IN_FLIGHT) {
      return { ...facts, reply: toBusyReply(IN_FLIGHT_RETRY_S, IN_FLIGHT_TEXT) };
    }
    if (body instanceof SandboxError) {
      return { ...facts, reply: toFaultReply(TOO_LARGE_STATUS, body.message), error: body };
    }
    await begin(team);
    const parsed = parseRequest(match, {
      query,
      body,
      contentType: request.headers["content-type"],
    });
    const waitSeconds = options.rateLimit.take(team, match.route.creates?.(parsed.body) ?? 0);
    if (waitSeconds > 0) return { ...facts, reply: toRateReply(waitSeconds) };
    const waitMs = readWaitMs(request.headers.prefer);
    const { domain, log } = options;
    const context = { sandboxes: options.sandboxes.of(team), domain, log };
    const { path } = match.route;
    if (facts.sandboxId !== undefined) await context.sandboxes.refreshRecord?.(facts.sandboxId);
    const origin = originOf(request);
    const full = { ...parsed, raw: body, path, origin, headers: request.headers, signal, waitMs };
    return { ...facts, reply: await match.route.handle(full, context) };
  } catch (error) {
    const { status, body, retryAfterSeconds } = toFault(error);
    return { ...facts, reply: { status, body, ...waiting(retryAfterSeconds) }, error };
  }
}

/** Clients wait as long as they are told and try again. */
function toBusyReply(waitSeconds: number, message: string): Answer["reply"] {
  return { ...toFaultReply(TOO_MANY_STATUS, message), ...waiting(waitSeconds) };
}

function waiting(retryAfterSeconds: number | undefined): { readonly retryAfterSeconds?: number } {
  return retryAfterSeconds === undefined ? {} : { retryAfterSeconds };
}

function toRateReply(waitSeconds: number): Answer["reply"] {
  const reply = toBusyReply(waitSeconds, "Rate limit exceeded");
  const headers = {
    "ratelimit-limit": String(RATE_LIMIT_BURST),
    "ratelimit-remaining": "0",
    "ratelimit-reset": String(waitSeconds),
  };
  return { ...reply, headers };
}

function toFaultReply(status: number, message: string): Answer["reply"] {
  return { status, body: { code: status, message } };
}

const IN_FLIGHT = Symbol("too many bytes in flight");
const IN_FLIGHT_RETRY_S = 1;

/** The body, or why there is none: a fault of one that is too large has a status that no code has. */
async function readBounded(
  request: IncomingMessage,
  hold: (bytes: number) => boolean,
): Promise<Buffer | SandboxError | typeof IN_FLIGHT> {
  let isHeld = true;
  try {
    return await readBodyInTurns(request, MAX_BODY_BYTES, (bytes) => {
      isHeld = hold(bytes);
      if (!isHeld) throw new SandboxError("resource_exhausted", IN_FLIGHT_TEXT);
    });
  } catch (error) {
    if (!isHeld) return IN_FLIGHT;
    if (hasErrorCode(error, "resource_exhausted")) return error;
    throw error;
  }
}

function splitTarget(target: string): { readonly path: string; readonly query: string } {
  const mark = target.indexOf("?");
  if (mark === -1) return { path: target, query: "" };
  return { path: target.slice(0, mark), query: target.slice(mark + 1) };
}

interface RawRequest {
  readonly query: string;
  readonly body: Buffer;
  readonly contentType: string | undefined;
}

/** @throws SandboxError invalid_argument with every fault of the first part that has one. */
function parseRequest({ route, params }: Match, raw: RawRequest) {
  return {
    params: parsePart("path", route.params, params),
    query: parsePart("query", route.query, readQuery(raw.query)),
    body: parsePart("body", route.body, parseBody(raw)),
  };
}

function parsePart(part: string, schema: z.ZodType | undefined, value: unknown): unknown {
  if (schema === undefined) return undefined;
  const result = schema.safeParse(value);
  if (result.success) return result.data;
  throw new SandboxError(
    "invalid_argument",
    `validation error: ${part}: ${faultsOf(result.error)}`,
  );
}

/** An empty body is undefined: the schema of the route says whether that will do. */
function parseBody({ body, contentType }: RawRequest): unknown {
  if (body.length === 0) return undefined;
  if (!JSON_PATTERN.test(contentType ?? "")) {
    throw new SandboxError(
      "invalid_argument",
      "validation error: body: content type must be application/json",
    );
  }
  try {
    return parseJson(body);
  } catch (error) {
    // Also one with too many values: who sends it again is refused again.
    throw new SandboxError("invalid_argument", `Error when parsing request: ${errorText(error)}`, {
      cause: error,
    });
  }
}
