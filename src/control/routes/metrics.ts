/** What sandboxes used: the history of one, and the newest sample of several. */

import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { queryList, wholeNumber } from "../../wire/bounds.ts";
import { metricSchema } from "../../wire/control.ts";
import { toMetricBody } from "../reply.ts";
import { defineRoute, readSandboxId, sandboxParams, type Route } from "../route.ts";

const MS_PER_SECOND = 1000;
const MAX_SANDBOXES = 100;
const seconds = wholeNumber(0, Math.floor(Number.MAX_SAFE_INTEGER / MS_PER_SECOND)).optional();

const idList = queryList
  .refine((ids) => !ids.includes(""), "must not be empty")
  .meta({ type: "array", items: { type: "string" }, minItems: 1, maxItems: MAX_SANDBOXES });

export const metricRoutes: readonly Route[] = [
  // Oldest first.
  defineRoute({
    method: "GET",
    path: "/sandboxes/{sandboxID}/metrics",
    params: sandboxParams,
    query: z.object({ start: seconds, end: seconds, fresh: z.enum(["true", "false"]).optional() }),
    replies: { 200: z.array(metricSchema) },
    faults: [400, 404],
    async handle({ params, query }, { sandboxes }) {
      const sandboxId = readSandboxId(params);
      const { start, end } = query;
      if (start !== undefined && end !== undefined && start > end) {
        throw new SandboxError("invalid_argument", "Invalid time range for metrics");
      }
      const samples = await sandboxes.metrics(sandboxId, {
        startMs: start === undefined ? undefined : start * MS_PER_SECOND,
        // The second that is named counts as a whole.
        endMs: end === undefined ? undefined : (end + 1) * MS_PER_SECOND - 1,
      });
      // A sample of this moment comes last, whatever the range.
      const fresh = query.fresh === "true" ? await sandboxes.measure(sandboxId) : undefined;
      const all = fresh === undefined ? samples : [...samples, fresh];
      return { status: 200, body: all.map(toMetricBody) };
    },
  }),
  defineRoute({
    method: "GET",
    path: "/sandboxes/metrics",
    query: z.object({ sandbox_ids: idList }),
    replies: { 200: z.object({ sandboxes: z.record(z.string(), metricSchema) }) },
    faults: [400],
    async handle({ query }, { sandboxes }) {
      const { sandbox_ids: names } = query;
      if (names.length > MAX_SANDBOXES) {
        throw new SandboxError(
          "invalid_argument",
          `Too many sandboxes requested, maximum is ${MAX_SANDBOXES}`,
        );
      }
      const entries = await Promise.all(
        names.map(async (name) => {
          const sandboxId = readSandboxId({ sandboxID: name });
          const sample = await sandboxes.latestMetric(sandboxId);
          return sample === undefined ? [] : [[sandboxId, toMetricBody(sample)] as const];
        }),
      );
      return { status: 200, body: { sandboxes: Object.fromEntries(entries.flat()) } };
    },
  }),
];
