/** The control API as an OpenAPI document, from the table of routes and their schemas. */

import { toJsonSchema, z } from "../src/common/schema.ts";
import type { Route } from "../src/control/route.ts";
import { ROUTES } from "../src/control/routes/index.ts";
import { CONTENT_ROUTES, type ContentRoute } from "../src/control/volume-content-routes.ts";
import { API_KEY_HEADER, ENVD_VERSION } from "../src/wire/headers.ts";
import { errorBodySchema } from "../src/wire/status.ts";

/** Of refusals without `error_code`. */
const faultSchema = errorBodySchema.omit({ error_code: true });

const UNAUTHENTICATED = 401;
const TOO_LARGE = 413;

/** Every status that a route documents, ascending. */
export function documentedStatuses(route: Route): readonly number[] {
  return Object.keys(toResponses(route))
    .filter((status) => status !== "default")
    .map(Number);
}

/** As routes are named in the document and in tests. */
export function nameOf({ method, path }: Pick<Route, "method" | "path">): string {
  return `${method} ${path}`;
}

/** The whole document, as a value. */
export function createOpenApi(): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of CONTENT_ROUTES) {
    const operation = toContentOperation(route);
    paths[route.path] = { ...paths[route.path], [route.method.toLowerCase()]: operation };
  }
  for (const route of ROUTES) {
    const path = route.path.replace(/\*$/, "{rest}");
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: toOperation(route) };
  }
  return {
    openapi: "3.1.0",
    info: { title: "sandbox-mcp control API", version: ENVD_VERSION },
    security: [{ apiKey: [] }],
    paths: Object.fromEntries(Object.entries(paths).toSorted(byName)),
    components: {
      securitySchemes: {
        apiKey: { type: "apiKey", in: "header", name: API_KEY_HEADER },
        volumeToken: { type: "http", scheme: "bearer" },
      },
      schemas: { Error: toSchema(faultSchema), WordedError: toSchema(errorBodySchema) },
    },
  };
}

function byName([left]: readonly [string, unknown], [right]: readonly [string, unknown]): number {
  return left < right ? -1 : 1;
}

function toOperation(route: Route): object {
  const parameters = [
    ...toPathParameters(route),
    ...toQueryParameters(route),
    ...toHeaderParameters(route),
  ];
  return {
    ...(parameters.length > 0 && { parameters }),
    ...(route.body !== undefined && {
      requestBody: {
        required: !route.body.safeParse(undefined).success,
        content: toJson(route.body),
      },
    }),
    responses: toResponses(route),
  };
}

const FAULT = toFaultReply("Error");
const WORDED_FAULT = toFaultReply("WordedError");

function toFaultReply(name: string): object {
  const schema = { $ref: `#/components/schemas/${name}` };
  return { description: "error", content: { "application/json": { schema } } };
}

function toResponses(route: Route): Record<string, object> {
  const { body, replies, faults, worded = [] } = route;
  const refusals = [UNAUTHENTICATED, ...faults, ...(body === undefined ? [] : [TOO_LARGE])];
  return {
    ...Object.fromEntries(
      Object.entries(replies).map(([status, schema]) => [
        status,
        { ...toReply(schema), ...toReplyHeaders(route) },
      ]),
    ),
    ...Object.fromEntries(
      refusals.map((status) => [status, worded.includes(status) ? WORDED_FAULT : FAULT]),
    ),
    // What any server may say: 500, 503, 507.
    default: WORDED_FAULT,
  };
}

function toReply(schema: z.ZodType | null): object {
  if (schema === null) return { description: "done" };
  return {
    description: "success",
    content: toJson(schema),
  };
}

function toReplyHeaders({ replyHeaders }: Route): object {
  if (replyHeaders === undefined) return {};
  const named = Object.entries(replyHeaders).map(([name, schema]) => [
    name,
    { required: false, schema: toSchema(schema) },
  ]);
  return { headers: Object.fromEntries(named) };
}

function toPathParameters({ path }: Pick<Route, "path">): object[] {
  const names = [...path.replace(/\*$/, "{rest}").matchAll(/\{([^}]+)\}/g)];
  return names.map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
}

function toQueryParameters({ query }: Pick<Route, "query">): object[] {
  if (!(query instanceof z.ZodObject)) return [];
  return Object.entries(query.shape).map(([name, schema]) => {
    const listed = toSchema(schema);
    return {
      name,
      in: "query",
      required: !schema.safeParse(undefined).success,
      // Of a list the items are joined by commas.
      ...(listed["type"] === "array" && { explode: false }),
      schema: listed,
    };
  });
}

function toHeaderParameters({ headers = {} }: Route): object[] {
  return Object.entries(headers).map(([name, schema]) => ({
    name,
    in: "header",
    required: false,
    schema: toSchema(schema),
  }));
}

const FILE_CONTENT = {
  "application/octet-stream": { schema: { type: "string", format: "binary" } },
};

/** Of the content of volumes: another credential, and files as they are. */
function toContentOperation(route: ContentRoute): object {
  const { body, replies, faults, takesFile } = route;
  const content = takesFile === true ? FILE_CONTENT : body && toJson(body);
  const statuses = Object.entries(replies).map(([status, schema]) => [
    status,
    schema === "file" ? { description: "success", content: FILE_CONTENT } : toReply(schema),
  ]);
  return {
    security: [{ volumeToken: [] }],
    parameters: [...toPathParameters(route), ...toQueryParameters(route)],
    ...(content !== undefined && { requestBody: { required: true, content } }),
    responses: {
      ...Object.fromEntries(statuses),
      ...Object.fromEntries([UNAUTHENTICATED, ...faults].map((status) => [status, FAULT])),
      default: WORDED_FAULT,
    },
  };
}

function toJson(schema: z.ZodType): object {
  return { "application/json": { schema: toSchema(schema) } };
}

/** What a client sends, before any of our conversions. */
function toSchema(schema: z.ZodType): Record<string, unknown> {
  return toJsonSchema(schema, "input");
}
