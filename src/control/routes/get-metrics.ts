/** `GET /sandboxes/{sandboxID}/metrics`: what a sandbox used, oldest first. */

import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { ignored, readSandboxId, sandboxParams, wholeNumber } from "../parameters.ts";
import { toMetricBody } from "../reply.ts";
import { defineRoute } from "../route.ts";

const MS_PER_SECOND = 1000;
const seconds = wholeNumber(0, Number.MAX_SAFE_INTEGER / MS_PER_SECOND).optional();

export const getMetricsRoute = defineRoute({
  method: "GET",
  path: "/sandboxes/{sandboxID}/metrics",
  auth: "key",
  params: sandboxParams,
  query: z.object({ start: seconds, end: seconds }),
  body: ignored,
  async handle({ params, query }, { sandboxes }) {
    const sandboxId = readSandboxId(params);
    const { start, end } = query;
    if (start !== undefined && end !== undefined && start > end) {
      throw new SandboxError("invalid_argument", "Invalid time range for metrics");
    }
    const samples = sandboxes.metrics(sandboxId, {
      startMs: start === undefined ? undefined : start * MS_PER_SECOND,
      // The second that is named counts as a whole.
      endMs: end === undefined ? undefined : (end + 1) * MS_PER_SECOND - 1,
    });
    return { status: 200, body: samples.map(toMetricBody) };
  },
});
