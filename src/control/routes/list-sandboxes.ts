/**
 * `GET /sandboxes`, the first generation: running ones only, newest first, in one page. Should they
 * exceed what a reply may hold, the header of the second generation tells where its list goes on.
 */

import { z } from "../../common/schema.ts";
import { NEXT_TOKEN_HEADER } from "../../wire/headers.ts";
import { parseMetadataFilter } from "../metadata-filter.ts";
import { ignored } from "../parameters.ts";
import { toListedBody } from "../reply.ts";
import { defineRoute } from "../route.ts";

export const listSandboxesRoute = defineRoute({
  method: "GET",
  path: "/sandboxes",
  auth: "key",
  params: ignored,
  query: z.object({ metadata: z.string().optional() }),
  body: ignored,
  async handle({ query }, { sandboxes }) {
    const { items, nextToken } = sandboxes.list({
      states: ["running"],
      metadata: parseMetadataFilter(query.metadata),
      startedAfterMs: undefined,
      templateId: undefined,
      page: { order: "desc", limit: Infinity, token: undefined },
    });
    return {
      status: 200,
      body: items.map(toListedBody),
      headers: nextToken === undefined ? {} : { [NEXT_TOKEN_HEADER]: nextToken },
    };
  },
});
