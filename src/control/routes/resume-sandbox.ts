/** `POST /sandboxes/{sandboxID}/resume`: like connect, but only for a paused sandbox. */

import { resumeRequestSchema } from "../../wire/control.ts";
import { ignored, readSandboxId, requirePositive, sandboxParams } from "../parameters.ts";
import { toSandboxBody } from "../reply.ts";
import { defineRoute } from "../route.ts";

const DEFAULT_TIMEOUT_SECONDS = 15;

export const resumeSandboxRoute = defineRoute({
  method: "POST",
  path: "/sandboxes/{sandboxID}/resume",
  auth: "key",
  params: sandboxParams,
  query: ignored,
  body: resumeRequestSchema.default({}),
  async handle({ params, body }, { sandboxes }) {
    const sandboxId = readSandboxId(params);
    const timeoutSeconds = body.timeout ?? DEFAULT_TIMEOUT_SECONDS;
    requirePositive(timeoutSeconds);
    const sandbox = await sandboxes.resume(sandboxId, {
      timeoutSeconds,
      keepsMemory: body.memory ?? true,
      pausesAtTimeout: body.autoPause,
    });
    return { status: 201, body: toSandboxBody(sandbox) };
  },
});
