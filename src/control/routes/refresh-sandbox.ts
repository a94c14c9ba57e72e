/** `POST /sandboxes/{sandboxID}/refreshes`: the expiry, only ever later. */

import { refreshRequestSchema } from "../../wire/control.ts";
import { ignored, readSandboxId, sandboxParams } from "../parameters.ts";
import { defineRoute } from "../route.ts";

const DEFAULT_DURATION_SECONDS = 15;

export const refreshSandboxRoute = defineRoute({
  method: "POST",
  path: "/sandboxes/{sandboxID}/refreshes",
  auth: "key",
  params: sandboxParams,
  query: ignored,
  body: refreshRequestSchema,
  async handle({ params, body }, { sandboxes }) {
    await sandboxes.refresh(readSandboxId(params), body.duration ?? DEFAULT_DURATION_SECONDS);
    return { status: 204 };
  },
});
