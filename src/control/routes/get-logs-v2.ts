/** `GET /v2/sandboxes/{sandboxID}/logs`: from a moment on or back, filtered, newest first. */

import { z } from "../../common/schema.ts";
import { ignored, readSandboxId, sandboxParams, wholeNumber } from "../parameters.ts";
import { toLogsBody } from "../reply.ts";
import { defineRoute } from "../route.ts";

const MAX_LIMIT = 1000;
const MAX_SEARCH_CHARACTERS = 256;

export const getLogsV2Route = defineRoute({
  method: "GET",
  path: "/v2/sandboxes/{sandboxID}/logs",
  auth: "key",
  params: sandboxParams,
  query: z.object({
    cursor: wholeNumber(0, Number.MAX_SAFE_INTEGER).optional(),
    limit: wholeNumber(0, MAX_LIMIT).default(MAX_LIMIT),
    direction: z.enum(["forward", "backward"]).default("backward"),
    level: z.enum(["debug", "info", "warn", "error"]).optional(),
    search: z.string().max(MAX_SEARCH_CHARACTERS).optional(),
  }),
  body: ignored,
  async handle({ params, query }, { sandboxes }) {
    const { cursor, direction, limit, level, search } = query;
    const lines = sandboxes.logs({
      sandboxId: readSandboxId(params),
      ...(direction === "forward" ? { startMs: cursor } : { endMs: cursor }),
      limit,
      direction,
      level,
      search,
    });
    return { status: 200, body: { logs: toLogsBody(lines).logEntries } };
  },
});
