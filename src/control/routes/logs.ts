/** `/sandboxes/{sandboxID}/logs`, in both generations; also of a sandbox that is gone. */

import { RECORD_LEVELS } from "../../common/log-level.ts";
import { z } from "../../common/schema.ts";
import { wholeNumber } from "../../wire/bounds.ts";
import { foundLogsSchema, logsSchema } from "../../wire/control.ts";
import { toLogEntries, toLogsBody } from "../log-reply.ts";
import { defineRoute, readSandboxId, sandboxParams, type Route } from "../route.ts";

/** The default of the first generation, and the most that the second one takes. */
const MAX_LIMIT = 1000;
const MAX_SEARCH_CHARACTERS = 256;

export const logRoutes: readonly Route[] = [
  // Oldest first.
  defineRoute({
    method: "GET",
    path: "/sandboxes/{sandboxID}/logs",
    params: sandboxParams,
    query: z.object({
      start: wholeNumber(0, Number.MAX_SAFE_INTEGER).optional(),
      limit: wholeNumber(0).default(MAX_LIMIT),
    }),
    replies: { 200: logsSchema },
    faults: [400, 404],
    async handle({ params, query, signal }, { sandboxes }) {
      const lines = await sandboxes.logs({
        sandboxId: readSandboxId(params),
        startMs: query.start,
        limit: query.limit,
        signal,
      });
      return { status: 200, body: await toLogsBody(lines) };
    },
  }),
  // From a moment on or back, filtered, newest first by default.
  defineRoute({
    method: "GET",
    path: "/v2/sandboxes/{sandboxID}/logs",
    params: sandboxParams,
    query: z.object({
      cursor: wholeNumber(0, Number.MAX_SAFE_INTEGER).optional(),
      limit: wholeNumber(0, MAX_LIMIT).default(MAX_LIMIT),
      direction: z.enum(["forward", "backward"]).default("backward"),
      level: z.enum(RECORD_LEVELS).optional(),
      search: z.string().max(MAX_SEARCH_CHARACTERS).optional(),
    }),
    replies: { 200: foundLogsSchema },
    faults: [400, 404],
    async handle({ params, query, signal }, { sandboxes }) {
      const { cursor, direction, limit, level, search } = query;
      const lines = await sandboxes.logs({
        sandboxId: readSandboxId(params),
        ...(direction === "forward" ? { startMs: cursor } : { endMs: cursor }),
        limit,
        direction,
        level,
        search,
        signal,
      });
      return { status: 200, body: { logs: await toLogEntries(lines) } };
    },
  }),
];
