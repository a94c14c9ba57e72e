/** `GET /sandboxes/{sandboxID}`. */

import { ignored, readSandboxId, sandboxParams } from "../parameters.ts";
import { toDetailBody } from "../reply.ts";
import { defineRoute } from "../route.ts";

export const getSandboxRoute = defineRoute({
  method: "GET",
  path: "/sandboxes/{sandboxID}",
  auth: "key",
  params: sandboxParams,
  query: ignored,
  body: ignored,
  async handle({ params }, { sandboxes }) {
    return { status: 200, body: toDetailBody(sandboxes.get(readSandboxId(params))) };
  },
});
