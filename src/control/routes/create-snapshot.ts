/** `POST /sandboxes/{sandboxID}/snapshots`. */

import { snapshotRequestSchema } from "../../wire/control.ts";
import { ignored, readSandboxId, sandboxParams } from "../parameters.ts";
import { toSnapshotBody } from "../reply.ts";
import { defineRoute } from "../route.ts";

export const createSnapshotRoute = defineRoute({
  method: "POST",
  path: "/sandboxes/{sandboxID}/snapshots",
  auth: "key",
  params: sandboxParams,
  query: ignored,
  body: snapshotRequestSchema.default({}),
  async handle({ params, body }, { sandboxes }) {
    const snapshot = await sandboxes.snapshot(readSandboxId(params), body.name);
    return { status: 201, body: toSnapshotBody(snapshot) };
  },
});
