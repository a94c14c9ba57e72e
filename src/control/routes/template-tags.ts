/** `/templates/tags` and `/templates/{templateID}/tags`: names for builds of a template. */

import { tagRequestSchema, untagRequestSchema } from "../../wire/control.ts";
import { ignored, templateParams } from "../parameters.ts";
import { toTagBody } from "../reply.ts";
import { defineRoute } from "../route.ts";

export const listTagsRoute = defineRoute({
  method: "GET",
  path: "/templates/{templateID}/tags",
  auth: "key",
  params: templateParams,
  query: ignored,
  body: ignored,
  async handle({ params }, { sandboxes }) {
    return { status: 200, body: sandboxes.templates.tags(params.templateID).map(toTagBody) };
  },
});

export const tagTemplateRoute = defineRoute({
  method: "POST",
  path: "/templates/tags",
  auth: "key",
  params: ignored,
  query: ignored,
  body: tagRequestSchema,
  async handle({ body }, { sandboxes }) {
    const { tags, buildId } = sandboxes.templates.tag(body.target, body.tags);
    return { status: 201, body: { tags, buildID: buildId } };
  },
});

export const untagTemplateRoute = defineRoute({
  method: "DELETE",
  path: "/templates/tags",
  auth: "key",
  params: ignored,
  query: ignored,
  body: untagRequestSchema,
  async handle({ body }, { sandboxes }) {
    sandboxes.templates.untag(body.name, body.tags);
    return { status: 204 };
  },
});
