/** `GET /templates`: every template that is no snapshot, oldest first. */

import { ignored } from "../parameters.ts";
import { toListedTemplate } from "../reply.ts";
import { defineRoute } from "../route.ts";

export const listTemplatesRoute = defineRoute({
  method: "GET",
  path: "/templates",
  auth: "key",
  params: ignored,
  query: ignored,
  body: ignored,
  async handle(_request, { sandboxes }) {
    return { status: 200, body: sandboxes.templates.list().flatMap(toListedTemplate) };
  },
});
