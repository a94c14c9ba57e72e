/** One operation of the control API, as a row of the table of routes. */

import type { Logger } from "../common/log.ts";
import type { z } from "../common/schema.ts";
import type { TeamSandboxes } from "../sandboxes/sandboxes.ts";

export interface RouteRequest<Params, Query, Body> {
  /** Decoded, each from its own segment of the path. */
  readonly params: Params;
  readonly query: Query;
  readonly body: Body;
  /** Fires when the client is gone. */
  readonly signal: AbortSignal;
}

export interface ControlContext {
  /** Those of the caller's team. */
  readonly sandboxes: TeamSandboxes;
  readonly log: Logger;
}

export interface RouteReply {
  readonly status: 200 | 201 | 204;
  /** Absent with 204 only. */
  readonly body?: unknown;
  readonly headers?: Readonly<Record<string, string>>;
}

export interface Route<Params = unknown, Query = unknown, Body = unknown> {
  readonly method: "GET" | "POST" | "PUT" | "PATCH" | "DELETE";
  /** Segments in braces are parameters; a last segment `*` takes any rest. */
  readonly path: string;
  readonly auth: "key";
  /** How many sandboxes it makes; keys may make only so many in a time. */
  makes?(body: Body): number;
  readonly params: z.ZodType<Params>;
  readonly query: z.ZodType<Query>;
  /** An absent or empty body is undefined here; the schema says whether that will do. */
  readonly body: z.ZodType<Body>;
  handle(request: RouteRequest<Params, Query, Body>, context: ControlContext): Promise<RouteReply>;
}

/** A route whose handler sees the types of its own schemas. */
export function defineRoute<Params, Query, Body>(
  route: Route<Params, Query, Body>,
): Route<Params, Query, Body> {
  return route;
}
