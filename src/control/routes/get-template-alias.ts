/** `GET /templates/aliases/{alias}`: whether a reference can be started from. */

import { z } from "../../common/schema.ts";
import { ignored } from "../parameters.ts";
import { defineRoute } from "../route.ts";

export const getTemplateAliasRoute = defineRoute({
  method: "GET",
  path: "/templates/aliases/{alias}",
  auth: "key",
  params: z.object({ alias: z.string() }),
  query: ignored,
  body: ignored,
  async handle({ params, signal }, { sandboxes }) {
    const resolved = await sandboxes.templates.resolve(params.alias, signal);
    const { templateId, isPublic } = resolved.template;
    return { status: 200, body: { templateID: templateId, public: isPublic } };
  },
});
