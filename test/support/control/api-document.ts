/** The committed document of the control API, and which of its parts a call and its reply show. */

import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { z } from "../../../src/common/schema.ts";
import type { Route } from "../../../src/control/route.ts";
import {
  NEXT_TOKEN_HEADER,
  PAUSE_MODE_HEADER,
  TOTAL_RUNNING_HEADER,
} from "../../../src/wire/headers.ts";
import type { Reply } from "../service.ts";
import { fieldsIn, fieldsOf, nodeSchema } from "./schema-coverage.ts";

const DOCUMENT = resolve(import.meta.dirname, "../../../docs/openapi.json");

const operationSchema = z.object({
  parameters: z
    .array(z.object({ name: z.string(), in: z.string(), schema: z.unknown() }))
    .default([]),
  requestBody: z
    .object({ content: z.object({ "application/json": z.object({ schema: nodeSchema }) }) })
    .optional(),
  responses: z.record(
    z.string(),
    z.object({
      headers: z.record(z.string(), z.unknown()).default({}),
      content: z.object({ "application/json": z.object({ schema: z.unknown() }) }).optional(),
    }),
  ),
});

const documentSchema = z.object({
  paths: z.record(z.string(), z.record(z.string(), z.unknown())),
  components: z.object({ schemas: z.object({ Error: nodeSchema, WordedError: nodeSchema }) }),
});

export const committed: unknown = JSON.parse(await readFile(DOCUMENT, "utf8"));
const document = documentSchema.parse(committed);
const { Error: errorNode, WordedError: wordedNode } = document.components.schemas;

type Place = Pick<Route, "method" | "path">;

function find({ method, path }: Place): unknown {
  return document.paths[path.replace(/\*$/, "{rest}")]?.[method.toLowerCase()];
}

function operationOf(route: Route) {
  return operationSchema.parse(find(route));
}

/** The schema of each parameter of the query. */
export function documentedQuery(place: Place): Record<string, unknown> {
  const { parameters } = operationSchema.pick({ parameters: true }).parse(find(place));
  const inQuery = parameters.filter((one) => one.in === "query");
  return Object.fromEntries(inQuery.map(({ name, schema }) => [name, schema]));
}

function bodyNode(route: Route) {
  return operationOf(route).requestBody?.content["application/json"].schema;
}

function replyNode(route: Route, status: number) {
  const response = operationOf(route).responses[String(status)];
  if (status >= 400) {
    return JSON.stringify(response).includes("/WordedError") ? wordedNode : errorNode;
  }
  return nodeSchema.parse(response?.content?.["application/json"].schema ?? {});
}

/** The fields of a request, by the names of the document. */
export function fieldsOfBody(route: Route, body: unknown): string[] {
  return fieldsIn(body, bodyNode(route) ?? {}).map((field) => `body ${field}`);
}

/** Headers of a success that the service sets itself, whatever the document names. */
const REPLY_HEADERS: ReadonlySet<string> = new Set([
  NEXT_TOKEN_HEADER,
  PAUSE_MODE_HEADER,
  TOTAL_RUNNING_HEADER,
]);

/** The fields and headers of a reply, those included that the document does not name. */
export function fieldsOfReply(route: Route, { status, body, headers }: Reply): string[] {
  return [
    ...fieldsIn(body, replyNode(route, status)).map((field) => `${status} ${field}`),
    ...Object.keys(headers)
      .filter((name) => REPLY_HEADERS.has(name))
      .map((name) => `${status} header ${name}`),
  ];
}

/** Everything that the document names for a route. */
export function documented(route: Route): string[] {
  const { parameters, responses } = operationOf(route);
  const statuses = Object.keys(responses).filter((status) => status !== "default");
  return [
    ...parameters
      .filter((one) => one.in !== "path")
      .map((one) => `${one.in} ${one.in === "header" ? one.name.toLowerCase() : one.name}`),
    ...fieldsOf(bodyNode(route) ?? {}).map((field) => `body ${field}`),
    ...statuses.flatMap((status) => [
      `status ${status}`,
      ...fieldsOf(replyNode(route, Number(status))).map((field) => `${status} ${field}`),
      ...Object.keys(responses[status]?.headers ?? {}).map(
        (name) => `${status} header ${name.toLowerCase()}`,
      ),
    ]),
  ];
}
