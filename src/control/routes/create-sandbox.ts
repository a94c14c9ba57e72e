/** `POST /sandboxes`, the first generation: 15 seconds by default, secured only on request. */

import { createRequestSchema } from "../../wire/control.ts";
import { toCreateOptions } from "../create-options.ts";
import { ignored } from "../parameters.ts";
import { toSandboxBody } from "../reply.ts";
import { defineRoute } from "../route.ts";

const DEFAULT_TIMEOUT_SECONDS = 15;

export const createSandboxRoute = defineRoute({
  method: "POST",
  path: "/sandboxes",
  auth: "key",
  makes: () => 1,
  params: ignored,
  query: ignored,
  body: createRequestSchema,
  async handle({ body, signal }, { sandboxes }) {
    const options = toCreateOptions(body, {
      timeoutSeconds: body.timeout ?? DEFAULT_TIMEOUT_SECONDS,
      isSecured: body.secure ?? false,
    });
    return { status: 201, body: toSandboxBody(await sandboxes.create(options, signal)) };
  },
});
