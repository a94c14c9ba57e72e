/** `POST /sandboxes/{sandboxID}/pause`. */

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
    await sandboxes.pause(readSandboxId(params), body.memory ?? true);
    return { status: 204 };
  },
});
