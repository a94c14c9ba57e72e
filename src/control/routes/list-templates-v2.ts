/** `GET /v2/templates`: as `GET /templates`, in pages. */

import { paginate } from "../../sandboxes/paging.ts";
import { NEXT_TOKEN_HEADER } from "../../wire/headers.ts";
import { ignored, pageQuery } from "../parameters.ts";
import { toListedTemplate } from "../reply.ts";
import { defineRoute } from "../route.ts";

export const listTemplatesV2Route = defineRoute({
  method: "GET",
  path: "/v2/templates",
  auth: "key",
  params: ignored,
  query: pageQuery,
  body: ignored,
  async handle({ query }, { sandboxes }) {
    const { items, nextToken } = paginate(
      sandboxes.templates.list(),
      {
        positionOf: ({ template }) => ({ atMs: template.createdAtMs, id: template.templateId }),
      },
      { order: "asc", limit: query.limit, token: query.nextToken },
    );
    return {
      status: 200,
      body: items.flatMap(toListedTemplate),
      headers: nextToken === undefined ? {} : { [NEXT_TOKEN_HEADER]: nextToken },
    };
  },
});
