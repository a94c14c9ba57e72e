/** Replies of the routes below `/templates/{templateID}/tags/`. */

import { z } from "../common/schema.ts";

/** Replies of `GET /templates/{templateID}/tags/count` and `/exists`. */
export const tagCountSchema = z.object({ total: z.number() });
export const tagExistsSchema = z.object({ exists: z.boolean(), normalizedTag: z.string() });

const tagAssignmentSchema = z.object({
  assignmentId: z.string(),
  buildId: z.string(),
  assignedAt: z.string(),
  buildCreatedAt: z.string(),
  buildFinishedAt: z.string().nullable(),
});

export type TagAssignmentBody = z.infer<typeof tagAssignmentSchema>;

/** Reply of `GET /templates/{templateID}/tags/{tag}/assignments`. */
export const tagAssignmentsSchema = z.object({
  data: z.array(tagAssignmentSchema),
  nextCursor: z.string().nullable(),
});

/** Reply of `GET /templates/{templateID}/tags/groups`. */
export const tagGroupsSchema = z.object({
  tags: z.array(
    z.object({
      tag: z.string(),
      assignments: z.array(tagAssignmentSchema),
      hasMore: z.boolean(),
    }),
  ),
  nextCursor: z.string().nullable(),
});
