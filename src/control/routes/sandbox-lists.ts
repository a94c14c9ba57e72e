/** Lists of sandboxes, in both generations, with their filters. */

import { SandboxError } from "../../common/errors.ts";
import { z } from "../../common/schema.ts";
import { parseTemplateReference } from "../../wire/address.ts";
import { MAX_FILTER_PAIRS, queryList } from "../../wire/bounds.ts";
import { listedSandboxSchema } from "../../wire/control.ts";
import { TOTAL_RUNNING_HEADER } from "../../wire/headers.ts";
import { toListedBody } from "../reply.ts";
import {
  defineRoute,
  nextPageHeader,
  PAGE_HEADERS,
  pageQuery,
  type ControlContext,
  type Route,
} from "../route.ts";

const STATES = ["running", "paused"] as const;

const filterSchema = z.object({
  metadata: z.string().optional(),
  state: queryList
    .pipe(z.array(z.enum(STATES)))
    .meta({ type: "array", items: { type: "string", enum: STATES }, minItems: 1 })
    .optional(),
  order: z
    .string()
    .meta({ enum: ["asc", "desc"] })
    .default("desc"),
  startedAfter: z.iso.datetime({ offset: true }).optional(),
  template: z.string().optional(),
  nextToken: pageQuery.shape.nextToken,
  limit: pageQuery.shape.limit,
});

export const sandboxListRoutes: readonly Route[] = [
  /**
   * Running ones only, newest first, in one page. Should they exceed what a reply may hold, the
   * header of the second generation names the page that follows in its list.
   */
  defineRoute({
    method: "GET",
    path: "/sandboxes",
    query: z.object({ metadata: z.string().optional() }),
    replies: { 200: z.array(listedSandboxSchema.omit({ envdUnresponsiveAtPause: true })) },
    faults: [400],
    async handle({ query }, { sandboxes }) {
      const { items, nextToken } = sandboxes.list({
        states: ["running"],
        metadata: parseMetadataFilter(query.metadata),
        startedAfterMs: undefined,
        templateId: undefined,
        page: { order: "desc", limit: Infinity, token: undefined },
      });
      return { status: 200, body: items.map(toListedBody), headers: nextPageHeader(nextToken) };
    },
  }),
  defineRoute({
    method: "GET",
    path: "/v2/sandboxes",
    query: filterSchema,
    replies: { 200: z.array(listedSandboxSchema) },
    replyHeaders: { ...PAGE_HEADERS, "X-Total-Running": z.int() },
    faults: [400],
    async handle({ query }, context) {
      const { order, limit, nextToken: token, startedAfter, template } = query;
      if (order !== "asc" && order !== "desc") {
        throw new SandboxError("invalid_argument", `Invalid order parameter: ${order}`);
      }
      const states = query.state ?? STATES;
      const list = context.sandboxes.list({
        states,
        metadata: parseMetadataFilter(query.metadata),
        startedAfterMs: startedAfter === undefined ? undefined : Date.parse(startedAfter),
        templateId: template === undefined ? undefined : findTemplate(template, context),
        page: { order, limit, token },
      });
      return {
        status: 200,
        body: list.items.map(toListedBody),
        headers: {
          ...nextPageHeader(list.nextToken),
          ...(states.includes("running") && { [TOTAL_RUNNING_HEADER]: String(list.totalRunning) }),
        },
      };
    },
  }),
];

/** An unknown template is one that no sandbox has. */
function findTemplate(reference: string, { sandboxes }: ControlContext): string {
  const parsed = parseTemplateReference(reference);
  if (parsed === undefined) {
    throw new SandboxError(
      "invalid_argument",
      `Invalid template: invalid template ID: ${reference}`,
    );
  }
  if (parsed.tag !== undefined) {
    throw new SandboxError(
      "invalid_argument",
      "Invalid template: tags are not supported here because sandboxes are not tag-scoped",
    );
  }
  return sandboxes.templates.peek(reference)?.templateId ?? "";
}

/**
 * The pairs of a metadata filter whose query encoding was already removed; clients encode it three
 * times. Plain `a=b&c=d` works too.
 * @throws SandboxError invalid_argument when it does not decode or has too many pairs.
 */
export function parseMetadataFilter(filter: string | undefined): ReadonlyMap<string, string> {
  const pairs = new Map<string, string>();
  if (filter === undefined || filter === "") return pairs;
  try {
    for (const pair of decode(filter).split("&")) {
      const mark = pair.indexOf("=");
      const key = mark === -1 ? pair : pair.slice(0, mark);
      const value = mark === -1 ? "" : pair.slice(mark + 1);
      pairs.set(decode(key), decode(value));
    }
  } catch (error) {
    throw new SandboxError("invalid_argument", "Error parsing metadata: not decodable", {
      cause: error,
    });
  }
  if (pairs.size > MAX_FILTER_PAIRS) {
    throw new SandboxError(
      "invalid_argument",
      `Error parsing metadata: at most ${MAX_FILTER_PAIRS} pairs are allowed, not ${pairs.size}`,
    );
  }
  return pairs;
}

/** Form decoding: a plus is a space. */
function decode(text: string): string {
  return decodeURIComponent(text.replaceAll("+", " "));
}
