/** `POST /sandboxes/{sandboxID}/fork`: the files of a running sandbox, in new ones. */

import { forkRequestSchema } from "../../wire/control.ts";
import { ignored, readSandboxId, requirePositive, sandboxParams } from "../parameters.ts";
import { toSandboxBody, toFault } from "../reply.ts";
import { defineRoute } from "../route.ts";

const DEFAULT_TIMEOUT_SECONDS = 15;
const DEFAULT_COUNT = 1;
/** More is refused by the operation itself. */
const MAX_COUNT = 100;

export const forkSandboxRoute = defineRoute({
  method: "POST",
  path: "/sandboxes/{sandboxID}/fork",
  auth: "key",
  makes: ({ count }) => Math.min(Math.max(count ?? DEFAULT_COUNT, 1), MAX_COUNT),
  params: sandboxParams,
  query: ignored,
  body: forkRequestSchema.default({}),
  async handle({ params, body }, { sandboxes }) {
    const sandboxId = readSandboxId(params);
    const timeoutSeconds = body.timeout ?? DEFAULT_TIMEOUT_SECONDS;
    requirePositive(timeoutSeconds);
    const count = body.count ?? DEFAULT_COUNT;
    const results = await sandboxes.fork(sandboxId, { count, timeoutSeconds });
    return {
      status: 201,
      body: results.map((result) => {
        if ("sandbox" in result) return { sandbox: toSandboxBody(result.sandbox) };
        const { status, message } = toFault(result.error);
        return { error: { code: status, message } };
      }),
    };
  },
});
