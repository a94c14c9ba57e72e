/** `PATCH /templates/{templateID}`, both generations: whether other teams see it. */

import { templateUpdateSchema } from "../../wire/control.ts";
import { ignored, templateParams } from "../parameters.ts";
import { defineRoute } from "../route.ts";

export const updateTemplateRoute = defineRoute({
  method: "PATCH",
  path: "/templates/{templateID}",
  auth: "key",
  params: templateParams,
  query: ignored,
  body: templateUpdateSchema,
  async handle({ params, body }, { sandboxes }) {
    sandboxes.templates.publish(params.templateID, body.public);
    return { status: 200, body: null };
  },
});

export const updateTemplateV2Route = defineRoute({
  method: "PATCH",
  path: "/v2/templates/{templateID}",
  auth: "key",
  params: templateParams,
  query: ignored,
  body: templateUpdateSchema,
  async handle({ params, body }, { sandboxes }) {
    const names = sandboxes.templates.publish(params.templateID, body.public);
    return { status: 200, body: { names } };
  },
});
