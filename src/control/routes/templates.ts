/** `/templates`: describe, publish, delete and tag templates. */

import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { paginate } from "../../sandboxes/paging.ts";
import {
  assignedTagsSchema,
  listedTemplateSchema,
  tagRequestSchema,
  templateNamesSchema,
  templateSchema,
  templateTagSchema,
  templateUpdateSchema,
  untagRequestSchema,
} from "../../wire/control-templates.ts";
import { toListedTemplate, toTagBody, toTemplateBody } from "../reply.ts";
import {
  defineRoute,
  nextPageHeader,
  PAGE_HEADERS,
  pageQuery,
  templateParams,
  type Route,
} from "../route.ts";

const listing = {
  method: "GET",
  replies: { 200: z.array(listedTemplateSchema) },
  faults: [],
  async handle(_request, { sandboxes }) {
    return { status: 200, body: sandboxes.templates.list().map(toListedTemplate) };
  },
} as const satisfies Omit<Route, "path">;

const templateRows: readonly Route[] = [
  // Every template that is no snapshot, oldest first.
  defineRoute({ ...listing, path: "/templates" }),
  // The same list.
  defineRoute({ ...listing, path: "/default-templates" }),
  defineRoute({
    method: "GET",
    path: "/v2/templates",
    query: pageQuery,
    replies: { 200: z.array(listedTemplateSchema) },
    replyHeaders: PAGE_HEADERS,
    faults: [400],
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
        body: items.map(toListedTemplate),
        headers: nextPageHeader(nextToken),
      };
    },
  }),
  // The whole template, whichever of its tags the reference names.
  defineRoute({
    method: "DELETE",
    path: "/templates/{templateID}",
    params: templateParams,
    replies: { 204: null },
    faults: [400, 403, 404],
    async handle({ params }, { sandboxes }) {
      await sandboxes.templates.remove(params.templateID);
      return { status: 204 };
    },
  }),
  // With its builds, newest first. Names work too.
  defineRoute({
    method: "GET",
    path: "/templates/{templateID}",
    params: templateParams,
    query: pageQuery,
    replies: { 200: templateSchema },
    replyHeaders: PAGE_HEADERS,
    faults: [400, 404],
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
        headers: nextPageHeader(nextToken),
      };
    },
  }),
  // Whether other teams see it.
  defineRoute({
    method: "PATCH",
    path: "/templates/{templateID}",
    params: templateParams,
    body: templateUpdateSchema,
    replies: { 200: z.null() },
    faults: [400, 403, 404],
    async handle({ params, body }, { sandboxes }) {
      sandboxes.templates.publish(params.templateID, body.public);
      return { status: 200, body: null };
    },
  }),
  defineRoute({
    method: "PATCH",
    path: "/v2/templates/{templateID}",
    params: templateParams,
    body: templateUpdateSchema,
    replies: { 200: templateNamesSchema },
    faults: [400, 403, 404],
    async handle({ params, body }, { sandboxes }) {
      const names = sandboxes.templates.publish(params.templateID, body.public);
      return { status: 200, body: { names } };
    },
  }),
  // Whether a sandbox can be created from a reference.
  defineRoute({
    method: "GET",
    path: "/templates/aliases/{alias}",
    params: z.object({ alias: z.string() }),
    replies: { 200: z.object({ templateID: z.string(), public: z.boolean() }) },
    faults: [400, 404],
    async handle({ params, signal }, { sandboxes }) {
      const { template } = await sandboxes.templates.resolve(params.alias, {
        signal,
        waitMs: 0,
      });
      return { status: 200, body: { templateID: template.templateId, public: template.isPublic } };
    },
  }),
];

/** Names for builds of a template. */
const tagRows: readonly Route[] = [
  defineRoute({
    method: "GET",
    path: "/templates/{templateID}/tags",
    params: templateParams,
    replies: { 200: z.array(templateTagSchema) },
    faults: [400, 404],
    async handle({ params }, { sandboxes }) {
      return { status: 200, body: sandboxes.templates.tags(params.templateID).map(toTagBody) };
    },
  }),
  defineRoute({
    method: "POST",
    path: "/templates/tags",
    body: tagRequestSchema,
    replies: { 201: assignedTagsSchema },
    faults: [400, 403, 404],
    async handle({ body }, { sandboxes }) {
      const { tags, buildId } = sandboxes.templates.tag(body.target, body.tags);
      return { status: 201, body: { tags, buildID: buildId } };
    },
  }),
  defineRoute({
    method: "DELETE",
    path: "/templates/tags",
    body: untagRequestSchema,
    replies: { 204: null },
    faults: [400, 403, 404],
    async handle({ body }, { sandboxes }) {
      sandboxes.templates.untag(body.name, body.tags);
      return { status: 204 };
    },
  }),
];

export const templateRoutes: readonly Route[] = [...templateRows, ...tagRows];
