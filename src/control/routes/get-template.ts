/** `GET /templates/{templateID}`: a template and its builds, newest first. Names work too. */

import { SandboxError } from "../../common/errors.ts";
import { NEXT_TOKEN_HEADER } from "../../wire/headers.ts";
import { ignored, pageQuery, templateParams } from "../parameters.ts";
import { toTemplateBody } from "../reply.ts";
import { defineRoute } from "../route.ts";

export const getTemplateRoute = defineRoute({
  method: "GET",
  path: "/templates/{templateID}",
  auth: "key",
  params: templateParams,
  query: pageQuery,
  body: ignored,
  async handle({ params, query }, { sandboxes }) {
    const template = sandboxes.templates.peek(params.templateID);
    if (template === undefined) {
      throw new SandboxError("not_found", `Template ${params.templateID} not found`);
    }
    const { items, nextToken } = sandboxes.templates.builds(template, {
      order: "desc",
      limit: query.limit,
      token: query.nextToken,
    });
    return {
      status: 200,
      body: toTemplateBody(template, items),
      headers: nextToken === undefined ? {} : { [NEXT_TOKEN_HEADER]: nextToken },
    };
  },
});
