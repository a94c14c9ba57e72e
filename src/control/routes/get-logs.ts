/** `GET /sandboxes/{sandboxID}/logs`: oldest first, also of a sandbox that is gone. */

import { z } from "../../common/schema.ts";
import { ignored, readSandboxId, sandboxParams, wholeNumber } from "../parameters.ts";
import { toLogsBody } from "../reply.ts";
import { defineRoute } from "../route.ts";

const DEFAULT_LIMIT = 1000;

export const getLogsRoute = defineRoute({
  method: "GET",
  path: "/sandboxes/{sandboxID}/logs",
  auth: "key",
  params: sandboxParams,
  query: z.object({
    start: wholeNumber(0, Number.MAX_SAFE_INTEGER).optional(),
    limit: wholeNumber(0).default(DEFAULT_LIMIT),
  }),
  body: ignored,
  async handle({ params, query }, { sandboxes }) {
    const lines = sandboxes.logs({
      sandboxId: readSandboxId(params),
      startMs: query.start,
      limit: query.limit,
    });
    return { status: 200, body: toLogsBody(lines) };
  },
});
