/** `POST /v2/sandboxes`, the second generation: 300 seconds by default, always secured. */

import { z } from "../../common/schema.ts";
import { createRequestSchema } from "../../wire/control.ts";
import { toCreateOptions } from "../create-options.ts";
import { ignored, requirePositive } from "../parameters.ts";
import { toSandboxBody } from "../reply.ts";
import { defineRoute } from "../route.ts";

const DEFAULT_TIMEOUT_SECONDS = 300;

export const createSandboxV2Route = defineRoute({
  method: "POST",
  path: "/v2/sandboxes",
  auth: "key",
  makes: () => 1,
  params: ignored,
  query: ignored,
  // A stray `secure` of whatever type is ignored.
  body: createRequestSchema.extend({ secure: z.unknown().optional() }),
  async handle({ body, signal }, { sandboxes }) {
    const timeoutSeconds = body.timeout ?? DEFAULT_TIMEOUT_SECONDS;
    requirePositive(timeoutSeconds);
    const options = toCreateOptions({ ...body, secure: true }, { timeoutSeconds, isSecured: true });
    return { status: 201, body: toSandboxBody(await sandboxes.create(options, signal)) };
  },
});
