/** `DELETE /sandboxes/{sandboxID}`. */

import { ignored, readSandboxId, sandboxParams } from "../parameters.ts";
import { defineRoute } from "../route.ts";

export const killSandboxRoute = defineRoute({
  method: "DELETE",
  path: "/sandboxes/{sandboxID}",
  auth: "key",
  params: sandboxParams,
  query: ignored,
  body: ignored,
  async handle({ params }, { sandboxes }) {
    await sandboxes.kill(readSandboxId(params));
    return { status: 204 };
  },
});
