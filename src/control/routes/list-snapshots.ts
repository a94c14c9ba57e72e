/** `GET /snapshots`: newest first, one entry for each snapshot template. */

import { z } from "../../common/schema.ts";
import { NEXT_TOKEN_HEADER } from "../../wire/headers.ts";
import { ignored, pageQuery } from "../parameters.ts";
import { toSnapshotBody } from "../reply.ts";
import { defineRoute } from "../route.ts";

export const listSnapshotsRoute = defineRoute({
  method: "GET",
  path: "/snapshots",
  auth: "key",
  params: ignored,
  query: pageQuery.extend({ sandboxID: z.string().optional(), name: z.string().optional() }),
  body: ignored,
  async handle({ query }, { sandboxes }) {
    const { items, nextToken } = sandboxes.listSnapshots({
      sandboxId: query.sandboxID,
      name: query.name,
      page: { order: "desc", limit: query.limit, token: query.nextToken },
    });
    return {
      status: 200,
      body: items.map(toSnapshotBody),
      headers: nextToken === undefined ? {} : { [NEXT_TOKEN_HEADER]: nextToken },
    };
  },
});
