/** `/sandboxes/{sandboxID}/snapshots` and `/snapshots`. */

import { z } from "../../common/schema.ts";
import { newSnapshotSchema, snapshotRequestSchema, snapshotSchema } from "../../wire/control.ts";
import { toMemoryFields, toSnapshotBody } from "../reply.ts";
import {
  defineRoute,
  nextPageHeader,
  PAGE_HEADERS,
  pageQuery,
  readSandboxId,
  sandboxParams,
  type Route,
} from "../route.ts";

export const snapshotRoutes: readonly Route[] = [
  defineRoute({
    method: "POST",
    path: "/sandboxes/{sandboxID}/snapshots",
    params: sandboxParams,
    body: snapshotRequestSchema.default({}),
    replies: { 201: newSnapshotSchema },
    faults: [400, 404, 409],
    async handle({ params, body, signal }, { sandboxes }) {
      const { name, memory: keepsMemory } = body;
      const snapshot = await sandboxes.snapshot(readSandboxId(params), name, {
        keepsMemory,
        signal,
      });
      return {
        status: 201,
        body: { ...toSnapshotBody(snapshot), ...toMemoryFields(snapshot.memory) },
      };
    },
  }),
  // Newest first, one entry for each snapshot template.
  defineRoute({
    method: "GET",
    path: "/snapshots",
    query: pageQuery.extend({ sandboxID: z.string().optional(), name: z.string().optional() }),
    replies: { 200: z.array(snapshotSchema) },
    replyHeaders: PAGE_HEADERS,
    faults: [400],
    async handle({ query }, { sandboxes }) {
      const { items, nextToken } = sandboxes.listSnapshots({
        sandboxId: query.sandboxID,
        name: query.name,
        page: { order: "desc", limit: query.limit, token: query.nextToken },
      });
      return { status: 200, body: items.map(toSnapshotBody), headers: nextPageHeader(nextToken) };
    },
  }),
];
