/** `POST /sandboxes/{sandboxID}/timeout`: the expiry, counted from now. */

import { timeoutRequestSchema } from "../../wire/control.ts";
import { ignored, readSandboxId, sandboxParams } from "../parameters.ts";
import { defineRoute } from "../route.ts";

export const setTimeoutRoute = defineRoute({
  method: "POST",
  path: "/sandboxes/{sandboxID}/timeout",
  auth: "key",
  params: sandboxParams,
  query: ignored,
  body: timeoutRequestSchema,
  async handle({ params, body }, { sandboxes }) {
    await sandboxes.setTimeout(readSandboxId(params), body.timeout);
    return { status: 204 };
  },
});
