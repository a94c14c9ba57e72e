/** The control API as an OpenAPI document, from the table of routes and their schemas. */

import { toJsonSchema, z } from "../common/schema.ts";
import {
  assignedTagsSchema,
  forkResultSchema,
  listedSandboxSchema,
  listedTemplateSchema,
  logsSchema,
  metricSchema,
  sandboxDetailSchema,
  sandboxSchema,
  snapshotSchema,
  templateNamesSchema,
  templateSchema,
  templateTagSchema,
  volumeSchema,
} from "../wire/control.ts";
import { API_KEY_HEADER, ENVD_VERSION } from "../wire/headers.ts";
import { errorBodySchema } from "../wire/status.ts";
import { ignored } from "./parameters.ts";
import type { Route } from "./route.ts";

/** Statuses of success with the schema of their body; null for none. */
type Replies = Readonly<Record<number, z.ZodType | null>>;

/** What a route answers: its successes, and the refusals that a client may have to tell apart. */
interface Documented {
  readonly replies: Replies;
  readonly faults: readonly number[];
}

const templateAliasSchema = z.object({ templateID: z.string(), public: z.boolean() });
const listedVolumeSchema = volumeSchema.omit({ token: true });
const logEntriesSchema = z.object({ logs: logsSchema.shape.logEntries });
const metricsSchema = z.object({ sandboxes: z.record(z.string(), metricSchema) });
const listedSandboxes = z.array(listedSandboxSchema);
const listedTemplates = z.array(listedTemplateSchema);
/** This service never sends a machine-readable code beside the status. */
const faultSchema = errorBodySchema.omit({ error_code: true });

const done: Replies = { 204: null };
const connected: Replies = { 200: sandboxSchema, 201: sandboxSchema };

function ok(schema: z.ZodType): Replies {
  return { 200: schema };
}

function made(schema: z.ZodType): Replies {
  return { 201: schema };
}

function row(replies: Replies, ...faults: number[]): Documented {
  return { replies, faults };
}

const DOCUMENTED: Readonly<Record<string, Documented>> = {
  "POST /sandboxes": row(made(sandboxSchema), 400, 403, 404, 429),
  "POST /v2/sandboxes": row(made(sandboxSchema), 400, 403, 404, 429),
  "GET /sandboxes": row(ok(listedSandboxes), 400),
  "GET /v2/sandboxes": row(ok(listedSandboxes), 400),
  "GET /sandboxes/metrics": row(ok(metricsSchema), 400),
  "GET /sandboxes/{sandboxID}": row(ok(sandboxDetailSchema), 400, 404),
  "DELETE /sandboxes/{sandboxID}": row(done, 400, 404),
  "POST /sandboxes/{sandboxID}/timeout": row(done, 400, 404, 409),
  "POST /sandboxes/{sandboxID}/refreshes": row(done, 400, 404, 409),
  "POST /sandboxes/{sandboxID}/pause": row(done, 400, 404, 409),
  "POST /sandboxes/{sandboxID}/connect": row(connected, 400, 404, 409),
  "POST /v2/sandboxes/{sandboxID}/connect": row(connected, 400, 404, 409),
  "POST /sandboxes/{sandboxID}/resume": row(made(sandboxSchema), 400, 404, 409),
  "POST /sandboxes/{sandboxID}/fork": row(made(z.array(forkResultSchema)), 400, 404, 409, 429),
  "PUT /sandboxes/{sandboxID}/network": row(done, 400, 403, 404, 409),
  "GET /sandboxes/{sandboxID}/logs": row(ok(logsSchema), 400, 404),
  "GET /v2/sandboxes/{sandboxID}/logs": row(ok(logEntriesSchema), 400, 404),
  "GET /sandboxes/{sandboxID}/metrics": row(ok(z.array(metricSchema)), 400, 404),
  "POST /sandboxes/{sandboxID}/snapshots": row(made(snapshotSchema), 400, 404, 409),
  "GET /snapshots": row(ok(z.array(snapshotSchema)), 400),
  "GET /templates": row(ok(listedTemplates)),
  "GET /v2/templates": row(ok(listedTemplates), 400),
  "GET /templates/{templateID}": row(ok(templateSchema), 400, 404),
  "DELETE /templates/{templateID}": row(done, 400, 403, 404),
  "PATCH /templates/{templateID}": row(ok(z.null()), 400, 403, 404),
  "PATCH /v2/templates/{templateID}": row(ok(templateNamesSchema), 400, 403, 404),
  "GET /templates/aliases/{alias}": row(ok(templateAliasSchema), 400, 404),
  "GET /templates/{templateID}/tags": row(ok(z.array(templateTagSchema)), 400, 404),
  "POST /templates/tags": row(made(assignedTagsSchema), 400, 403, 404),
  "DELETE /templates/tags": row(done, 400, 403, 404),
  "GET /volumes": row(ok(z.array(listedVolumeSchema))),
  "POST /volumes": row(made(volumeSchema), 400),
  "GET /volumes/{volumeID}": row(ok(volumeSchema), 400, 404),
  "DELETE /volumes/{volumeID}": row(done, 400, 404, 409),
};

const UNAUTHENTICATED = 401;
const TOO_LARGE = 413;
const NOT_OFFERED = 501;

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
export function createOpenApi(routes: readonly Route[]): object {
  const paths: Record<string, Record<string, object>> = {};
  for (const route of routes) {
    const path = route.path.replace(/\*$/, "{rest}");
    paths[path] = { ...paths[path], [route.method.toLowerCase()]: toOperation(route) };
  }
  return {
    openapi: "3.1.0",
    info: { title: "sandbox-mcp control API", version: ENVD_VERSION },
    security: [{ apiKey: [] }],
    paths: Object.fromEntries(Object.entries(paths).toSorted(byName)),
    components: {
      securitySchemes: { apiKey: { type: "apiKey", in: "header", name: API_KEY_HEADER } },
      schemas: { Error: toSchema(faultSchema) },
    },
  };
}

function byName([left]: readonly [string, unknown], [right]: readonly [string, unknown]): number {
  return left < right ? -1 : 1;
}

function toOperation(route: Route): object {
  const hasBody = route.body !== ignored;
  const parameters = [...toPathParameters(route), ...toQueryParameters(route)];
  return {
    ...(parameters.length > 0 && { parameters }),
    ...(hasBody && {
      requestBody: {
        required: !route.body.safeParse(undefined).success,
        content: { "application/json": { schema: toSchema(route.body) } },
      },
    }),
    responses: toResponses(route),
  };
}

const FAULT = {
  description: "error",
  content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
};

function toResponses(route: Route): Record<string, object> {
  const { replies, faults } = DOCUMENTED[nameOf(route)] ?? row({}, NOT_OFFERED);
  const refusals = [UNAUTHENTICATED, ...faults, ...(route.body === ignored ? [] : [TOO_LARGE])];
  return {
    ...Object.fromEntries(
      Object.entries(replies).map(([status, schema]) => [status, toReply(schema)]),
    ),
    ...Object.fromEntries(refusals.map((status) => [status, FAULT])),
    // What any server may say: 500, 503, 507.
    default: FAULT,
  };
}

function toReply(schema: z.ZodType | null): object {
  if (schema === null) return { description: "done" };
  return {
    description: "success",
    content: { "application/json": { schema: toSchema(schema) } },
  };
}

function toPathParameters({ path }: Route): object[] {
  const names = [...path.replace(/\*$/, "{rest}").matchAll(/\{([^}]+)\}/g)];
  return names.map(([, name]) => ({
    name,
    in: "path",
    required: true,
    schema: { type: "string" },
  }));
}

function toQueryParameters({ query }: Route): object[] {
  if (!(query instanceof z.ZodObject)) return [];
  return Object.entries(query.shape).map(([name, schema]) => ({
    name,
    in: "query",
    required: !schema.safeParse(undefined).success,
    schema: toSchema(schema),
  }));
}

/** What a client sends, before any of our conversions. */
function toSchema(schema: z.ZodType): object {
  return toJsonSchema(schema, "input");
}
