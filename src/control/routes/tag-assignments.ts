/** `/templates/{templateID}/tags/...`: tags one by one and in groups, with their assignments. */

import { SandboxError } from "../../common/errors.ts";
import { sha256Hex } from "../../common/hash.ts";
import { z } from "../../common/schema.ts";
import { normalizeTag, type TagAssignment } from "../../sandboxes/templates/template-tags.ts";
import { wholeNumber } from "../../wire/bounds.ts";
import {
  tagAssignmentsSchema,
  tagCountSchema,
  tagExistsSchema,
  tagGroupsSchema,
  type TagAssignmentBody,
} from "../../wire/tag-assignments.ts";
import { defineRoute, templateParams, type Route } from "../route.ts";

const MAX_LIMIT = 100;
const MAX_TEXT = 512;
const DEFAULT_TAGS = 25;
const UUID_PARTS = /^(.{8})(.{4}).(.{3}).(.{3})(.{12}).*$/;

const limit = wholeNumber(1, MAX_LIMIT);
const text = z.string().max(MAX_TEXT);
const sort = z.enum(["latest_asc", "latest_desc", "name_asc", "name_desc"]);

export const tagAssignmentRoutes: readonly Route[] = [
  defineRoute({
    method: "GET",
    path: "/templates/{templateID}/tags/count",
    params: templateParams,
    replies: { 200: tagCountSchema },
    faults: [400, 404],
    async handle({ params }, { sandboxes }) {
      const { length: total } = sandboxes.templates.assignments(params.templateID);
      return { status: 200, body: { total } };
    },
  }),
  defineRoute({
    method: "GET",
    path: "/templates/{templateID}/tags/exists",
    params: templateParams,
    query: z.object({ tag: text.default("") }),
    replies: { 200: tagExistsSchema },
    faults: [400, 404],
    async handle({ params, query }, { sandboxes }) {
      const all = sandboxes.templates.assignments(params.templateID);
      const normalizedTag = normalizeTag(query.tag);
      const exists = all.some(({ tag }) => tag.tag === normalizedTag);
      return { status: 200, body: { exists, normalizedTag } };
    },
  }),
  defineRoute({
    method: "GET",
    path: "/templates/{templateID}/tags/groups",
    params: templateParams,
    query: z.object({
      assignmentLimit: limit.optional(),
      tagsLimit: limit.default(DEFAULT_TAGS),
      tagsCursor: text.optional(),
      search: text.optional(),
      sort: sort.default("latest_desc"),
    }),
    replies: { 200: tagGroupsSchema },
    faults: [400, 404],
    async handle({ params, query }, { sandboxes }) {
      const order = ORDERS[query.sort];
      const all = sandboxes.templates
        .assignments(params.templateID)
        .filter(({ tag }) => tag.tag.includes((query.search ?? "").trim().toLowerCase()))
        .map((assignment) => ({ place: toPlace(assignment), assignment }))
        .toSorted((left, right) => order(left.place, right.place));
      const after = query.tagsCursor === undefined ? undefined : readCursor(query.tagsCursor);
      const rest = after === undefined ? all : all.filter(({ place }) => order(place, after) > 0);
      const page = rest.slice(0, query.tagsLimit);
      const tags = page.map(({ assignment }) => ({
        tag: assignment.tag.tag,
        assignments: [toAssignmentBody(assignment)],
        hasMore: false,
      }));
      const last = rest.length > page.length ? page.at(-1) : undefined;
      return { status: 200, body: { tags, nextCursor: last ? toCursor(last.place) : null } };
    },
  }),
  defineRoute({
    method: "GET",
    path: "/templates/{templateID}/tags/{tag}/assignments",
    params: templateParams.extend({ tag: text }),
    query: z.object({ limit: limit.optional(), cursor: text.optional() }),
    replies: { 200: tagAssignmentsSchema },
    faults: [400, 404],
    async handle({ params, query }, { sandboxes }) {
      const all = sandboxes.templates.assignments(params.templateID);
      // There is one page: no cursor was given out.
      if (query.cursor !== undefined && query.cursor !== "") throw badCursor();
      const name = normalizeTag(params.tag);
      const found = all.filter(({ tag }) => tag.tag === name);
      return { status: 200, body: { data: found.map(toAssignmentBody), nextCursor: null } };
    },
  }),
];

/** Where a tag stands in a list. */
interface Place {
  readonly atMs: number;
  readonly name: string;
}

type Order = (left: Place, right: Place) => number;

const byName: Order = (left, right) =>
  left.name === right.name ? 0 : left.name < right.name ? -1 : 1;
const byTime: Order = (left, right) => left.atMs - right.atMs || byName(left, right);

const ORDERS = {
  latest_asc: byTime,
  latest_desc: (left, right) => byTime(right, left),
  name_asc: byName,
  name_desc: (left, right) => byName(right, left),
} as const satisfies Record<z.infer<typeof sort>, Order>;

function toPlace({ tag }: TagAssignment): Place {
  return { atMs: tag.createdAtMs, name: tag.tag };
}

function toCursor({ atMs, name }: Place): string {
  return Buffer.from(`${atMs}:${name}`).toString("base64url");
}

function readCursor(cursor: string): Place {
  const read = /^([0-9]{1,15}):(.+)$/.exec(Buffer.from(cursor, "base64url").toString());
  if (read === null) throw badCursor();
  return { atMs: Number(read[1]), name: read[2] ?? "" };
}

function badCursor(): SandboxError {
  return new SandboxError("invalid_argument", "Invalid cursor");
}

function toAssignmentBody({ tag, build }: TagAssignment): TagAssignmentBody {
  const facts = [tag.templateId, tag.tag, tag.buildId, tag.createdAtMs].join("/");
  return {
    assignmentId: toUuid(facts),
    buildId: tag.buildId,
    assignedAt: new Date(tag.createdAtMs).toISOString(),
    buildCreatedAt: new Date(build.createdAtMs).toISOString(),
    buildFinishedAt:
      build.finishedAtMs === null ? null : new Date(build.finishedAtMs).toISOString(),
  };
}

/** The same for the same assignment (RFC 9562, version 8). */
function toUuid(facts: string): string {
  const hash = sha256Hex(facts);
  return hash.replace(UUID_PARTS, "$1-$2-8$3-8$4-$5");
}
