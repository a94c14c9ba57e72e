/** `POST /sandboxes/{sandboxID}/connect`, the first generation: the timeout is required. */

import { connectRequestSchema, timeoutRequestSchema } from "../../wire/control.ts";
import { ignored, readSandboxId, sandboxParams } from "../parameters.ts";
import { toSandboxBody } from "../reply.ts";
import { defineRoute } from "../route.ts";

export const connectSandboxRoute = defineRoute({
  method: "POST",
  path: "/sandboxes/{sandboxID}/connect",
  auth: "key",
  params: sandboxParams,
  query: ignored,
  body: connectRequestSchema.extend(timeoutRequestSchema.shape),
  async handle({ params, body }, { sandboxes }) {
    const { sandbox, wasResumed } = await sandboxes.connect(readSandboxId(params), {
      timeoutSeconds: body.timeout,
      keepsMemory: body.memory ?? true,
    });
    return { status: wasResumed ? 201 : 200, body: toSandboxBody(sandbox) };
  },
});
