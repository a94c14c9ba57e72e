/** `POST /sandboxes/{sandboxID}/pause`. */

import { SandboxError } from "../../common/errors.ts";
import { pauseRequestSchema } from "../../wire/control.ts";
import { ignored, readSandboxId, sandboxParams } from "../parameters.ts";
import { defineRoute } from "../route.ts";

export const pauseSandboxRoute = defineRoute({
  method: "POST",
  path: "/sandboxes/{sandboxID}/pause",
  auth: "key",
  params: sandboxParams,
  query: ignored,
  body: pauseRequestSchema.default({}),
  async handle({ params, body }, { sandboxes }) {
    const sandboxId = readSandboxId(params);
    if (body.memory === false) {
      sandboxes.get(sandboxId);
      throw new SandboxError("unimplemented", "a pause without memory is not available yet");
    }
    await sandboxes.pause(sandboxId);
    return { status: 204 };
  },
});
