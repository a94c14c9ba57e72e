/** The control API as an OpenAPI document, from the table of routes and their schemas. */

import { toJsonSchema, z } from "../common/schema.ts";
import {
  forkResultSchema,
  listedSandboxSchema,
  listedTemplateSchema,
  logsSchema,
  metricSchema,
  sandboxDetailSchema,
  sandboxSchema,
  snapshotSchema,
  templateSchema,
  volumeSchema,
} from "../wire/control.ts";
import { API_KEY_HEADER, ENVD_VERSION } from "../wire/headers.ts";
import { errorBodySchema } from "../wire/status.ts";
import { ignored } from "./parameters.ts";
import type { Route } from "./route.ts";
import { notOfferedRoutes } from "./routes/not-offered.ts";

/** Statuses of success with the schema of their body; null for none. */
type Replies = Readonly<Record<number, z.ZodType | null>>;

const templateAliasSchema = z.object({ templateID: z.string(), public: z.boolean() });
const listedVolumeSchema = volumeSchema.omit({ token: true });
const logEntriesSchema = z.object({ logs: logsSchema.shape.logEntries });
const metricsSchema = z.object({ sandboxes: z.record(z.string(), metricSchema) });

const REPLIES: Readonly<Record<string, Replies>> = {
  "POST /sandboxes": { 201: sandboxSchema },
  "POST /v2/sandboxes": { 201: sandboxSchema },
  "GET /sandboxes": { 200: z.array(listedSandboxSchema) },
  "GET /v2/sandboxes": { 200: z.array(listedSandboxSchema) },
  "GET /sandboxes/metrics": { 200: metricsSchema },
  "GET /sandboxes/{sandboxID}": { 200: sandboxDetailSchema },
  "DELETE /sandboxes/{sandboxID}": { 204: null },
  "POST /sandboxes/{sandboxID}/timeout": { 204: null },
  "POST /sandboxes/{sandboxID}/refreshes": { 204: null },
  "POST /sandboxes/{sandboxID}/pause": { 204: null },
  "POST /sandboxes/{sandboxID}/connect": { 200: sandboxSchema, 201: sandboxSchema },
  "POST /v2/sandboxes/{sandboxID}/connect": { 200: sandboxSchema, 201: sandboxSchema },
  "POST /sandboxes/{sandboxID}/resume": { 201: sandboxSchema },
  "POST /sandboxes/{sandboxID}/fork": { 201: z.array(forkResultSchema) },
  "PUT /sandboxes/{sandboxID}/network": { 204: null },
  "GET /sandboxes/{sandboxID}/logs": { 200: logsSchema },
  "GET /v2/sandboxes/{sandboxID}/logs": { 200: logEntriesSchema },
  "GET /sandboxes/{sandboxID}/metrics": { 200: z.array(metricSchema) },
  "POST /sandboxes/{sandboxID}/snapshots": { 201: snapshotSchema },
  "GET /snapshots": { 200: z.array(snapshotSchema) },
  "GET /templates": { 200: z.array(listedTemplateSchema) },
  "GET /templates/{templateID}": { 200: templateSchema },
  "DELETE /templates/{templateID}": { 204: null },
  "GET /templates/aliases/{alias}": { 200: templateAliasSchema },
  "GET /volumes": { 200: z.array(listedVolumeSchema) },
  "POST /volumes": { 201: volumeSchema },
  "GET /volumes/{volumeID}": { 200: volumeSchema },
  "DELETE /volumes/{volumeID}": { 204: null },
};

/** The statuses of success that a route documents, and 501 for what is not offered. */
export function documentedStatuses(route: Route): readonly number[] {
  if (notOfferedRoutes.includes(route)) return [501];
  return Object.keys(REPLIES[nameOf(route)] ?? {}).map(Number);
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
      schemas: { Error: toSchema(errorBodySchema) },
    },
  };
}

function byName([left]: readonly [string, unknown], [right]: readonly [string, unknown]): number {
  return left < right ? -1 : 1;
}

function toOperation(route: Route): object {
  const hasBody = route.body !== ignored;
  const fault = {
    description: "error",
    content: { "application/json": { schema: { $ref: "#/components/schemas/Error" } } },
  };
  const replies = Object.entries(REPLIES[nameOf(route)] ?? {});
  const parameters = [...toPathParameters(route), ...toQueryParameters(route)];
  return {
    ...(parameters.length > 0 && { parameters }),
    ...(hasBody && {
      requestBody: {
        required: !route.body.safeParse(undefined).success,
        content: { "application/json": { schema: toSchema(route.body) } },
      },
    }),
    responses: {
      ...Object.fromEntries(replies.map(([status, schema]) => [status, toReply(schema)])),
      ...(notOfferedRoutes.includes(route) && { 501: fault }),
      default: fault,
    },
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
  return Object.fromEntries(
    Object.entries(toJsonSchema(schema, "input")).filter(([name]) => name !== "$schema"),
  );
}
