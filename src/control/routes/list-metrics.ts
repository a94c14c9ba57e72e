/** `GET /sandboxes/metrics`: the newest sample of each sandbox that is named. */

import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { parseSandboxId } from "../../wire/address.ts";
import { MESSAGES } from "../../wire/messages.ts";
import { ignored } from "../parameters.ts";
import { toMetricBody } from "../reply.ts";
import { defineRoute } from "../route.ts";

const MAX_SANDBOXES = 100;

export const listMetricsRoute = defineRoute({
  method: "GET",
  path: "/sandboxes/metrics",
  auth: "key",
  params: ignored,
  query: z.object({ sandbox_ids: z.string().min(1) }),
  body: ignored,
  async handle({ query }, { sandboxes }) {
    const names = query.sandbox_ids.split(",");
    if (names.length > MAX_SANDBOXES) {
      throw new SandboxError(
        "invalid_argument",
        `Too many sandboxes requested, maximum is ${MAX_SANDBOXES}`,
      );
    }
    const entries = names.flatMap((name) => {
      const sandboxId = parseSandboxId(name);
      if (sandboxId === undefined) {
        throw new SandboxError("invalid_argument", MESSAGES.invalidSandboxId);
      }
      const sample = sandboxes.latestMetric(sandboxId);
      return sample === undefined ? [] : [[sandboxId, toMetricBody(sample)] as const];
    });
    return { status: 200, body: { sandboxes: Object.fromEntries(entries) } };
  },
});
