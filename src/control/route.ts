/** One operation of the control API, as a row of the table of routes, and what several rows share. */

import type { IncomingHttpHeaders } from "node:http";
import { SandboxError } from "../common/errors.ts";
import type { Logger } from "../common/log.ts";
import { z } from "../common/schema.ts";
import type { TeamSandboxes } from "../sandboxes/team-sandboxes.ts";
import { parseSandboxId } from "../wire/address.ts";
import { wholeNumber } from "../wire/bounds.ts";
import { NEXT_TOKEN_HEADER } from "../wire/headers.ts";
import { MESSAGES } from "../wire/messages.ts";

const MAX_PAGE_SIZE = 100;

/** Default time to live of the first and the second generation of the API. */
export const DEFAULT_TIMEOUT_SECONDS = 15;
export const DEFAULT_TIMEOUT_V2_SECONDS = 300;

export interface RouteRequest<Params, Query, Body> {
  /** Decoded, each from its own segment of the path. */
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  /** As sent. */
  readonly raw: Buffer;
  /** Scheme and host, as the client reaches this service. */
  readonly origin: string;
  /** The pattern of the route. */
  readonly path: string;
  readonly headers: IncomingHttpHeaders;
  /** Fires when the client is gone. */
  readonly signal: AbortSignal;
  /** How long the client waits for what takes long; see the header `Prefer`. */
  readonly waitMs: number;
}

export interface ControlContext {
  /** Those of the caller's team. */
  readonly sandboxes: TeamSandboxes;
  /** Below which sandboxes are reached, with the port; null where only this process reaches them. */
  readonly domain: string | null;
  readonly log: Logger;
}

export interface RouteReply {
  readonly status: 200 | 201 | 202 | 204;
  /** Absent where the schema of the reply is null. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Route<Params = unknown, Query = unknown, Body = unknown> {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Segments in braces are parameters; a last segment `*` takes any rest. */
  readonly path: string;
  /** How many sandboxes it creates: the rate limit counts them. */
  creates?(body: Body): number;
  /** Absent: the handler reads none of them. */
  readonly params?: z.ZodType<Params>;
  readonly query?: z.ZodType<Query>;
  /** Headers that the handler reads itself, for the document; all of them are optional. */
  readonly headers?: Readonly<Record<string, z.ZodType>>;
  /** Gets undefined for an absent or empty body; the schema says whether that will do. */
  readonly body?: z.ZodType<Body>;
  /** Statuses of success with the schema of their body; null for none. */
  readonly replies: Readonly<Partial<Record<RouteReply["status"], z.ZodType | null>>>;
  /** Headers of a success that clients read, for the document; each can be absent. */
  readonly replyHeaders?: Readonly<Record<string, z.ZodType>>;
  /** The refusals that a client may have to tell apart, besides 401 and 413. */
  readonly faults: readonly number[];
  /** The faults that have an `error_code`. */
  readonly worded?: readonly number[];
  handle(request: RouteRequest<Params, Query, Body>, context: ControlContext): Promise<RouteReply>;
}

/** A route whose handler sees the types of its own schemas. */
export function defineRoute<Params, Query, Body>(
  route: Route<Params, Query, Body>,
): Route<Params, Query, Body> {
  return route;
}

export const sandboxParams = z.object({ sandboxID: z.string() });
export const templateParams = z.object({ templateID: z.string() });

/** @throws SandboxError invalid_argument when it cannot be an identifier. */
export function readSandboxId(params: { readonly sandboxID: string }): string {
  const sandboxId = parseSandboxId(params.sandboxID);
  if (sandboxId === undefined) {
    throw new SandboxError("invalid_argument", MESSAGES.invalidSandboxId);
  }
  return sandboxId;
}

/** Clients give up after a minute; they are told before. */
const MAX_WAIT_MS = 50_000;

/** The wait that a client prefers, such as `Prefer: wait=5`, within what is waited for at all. */
export function readWaitMs(prefer: string | readonly string[] | undefined): number {
  const text = [prefer ?? ""].flat().join(",");
  const seconds = /(?:^|[,;])\s*wait\s*=\s*([0-9]{1,4})\s*(?:$|[,;])/i.exec(text)?.[1];
  return seconds === undefined ? MAX_WAIT_MS : Math.min(Number(seconds) * 1_000, MAX_WAIT_MS);
}

/** Of lists in pages. */
export const pageQuery = z.object({
  limit: wholeNumber(1, MAX_PAGE_SIZE).default(MAX_PAGE_SIZE),
  nextToken: z.string().optional(),
});

/** What a route of a list in pages documents of its reply. */
export const PAGE_HEADERS = { "X-Next-Token": z.string() };

/** The header that names the next page; none on the last one. */
export function nextPageHeader(nextToken: string | undefined): Record<string, string> {
  return nextToken === undefined ? {} : { [NEXT_TOKEN_HEADER]: nextToken };
}

/** @throws SandboxError invalid_argument unless it is above 0. */
export function requirePositive(seconds: number): number {
  if (seconds <= 0) throw new SandboxError("invalid_argument", MESSAGES.timeoutNotPositive);
  return seconds;
}
