/** `POST /v2/sandboxes/{sandboxID}/connect`, the second generation: 300 seconds by default. */

import { connectRequestSchema } from "../../wire/control.ts";
import { ignored, readSandboxId, requirePositive, sandboxParams } from "../parameters.ts";
import { toSandboxBody } from "../reply.ts";
import { defineRoute } from "../route.ts";

const DEFAULT_TIMEOUT_SECONDS = 300;

export const connectSandboxV2Route = defineRoute({
  method: "POST",
  path: "/v2/sandboxes/{sandboxID}/connect",
  auth: "key",
  params: sandboxParams,
  query: ignored,
  body: connectRequestSchema.default({}),
  async handle({ params, body }, { sandboxes }) {
    const sandboxId = readSandboxId(params);
    const timeoutSeconds = body.timeout ?? DEFAULT_TIMEOUT_SECONDS;
    requirePositive(timeoutSeconds);
    const { sandbox, wasResumed } = await sandboxes.connect(sandboxId, {
      timeoutSeconds,
      keepsMemory: body.memory ?? true,
    });
    return { status: wasResumed ? 201 : 200, body: toSandboxBody(sandbox) };
  },
});
