/** `/sandboxes/{sandboxID}/...`: timeout, pause, resume, connect and fork. */

import { z } from "../../common/schema.ts";
import {
  connectRequestSchema,
  forkRequestSchema,
  forkResultSchema,
  pauseRequestSchema,
  refreshRequestSchema,
  resumeRequestSchema,
  sandboxSchema,
  timeoutRequestSchema,
} from "../../wire/control.ts";
import { PAUSE_MODE_HEADER } from "../../wire/headers.ts";
import { toFault, toCreatedBody, toSandboxBody } from "../reply.ts";
import {
  DEFAULT_TIMEOUT_SECONDS,
  DEFAULT_TIMEOUT_V2_SECONDS,
  defineRoute,
  readSandboxId,
  requirePositive,
  sandboxParams,
  type ControlContext,
  type Route,
  type RouteReply,
} from "../route.ts";

const DEFAULT_REFRESH_SECONDS = 15;
const DEFAULT_FORK_COUNT = 1;
/** The operation itself refuses more. */
const MAX_FORK_COUNT = 100;

export const lifecycleRoutes: readonly Route[] = [
  defineRoute({
    method: "POST",
    path: "/sandboxes/{sandboxID}/timeout",
    params: sandboxParams,
    body: timeoutRequestSchema,
    replies: { 204: null },
    faults: [400, 404, 409],
    async handle({ params, body }, { sandboxes }) {
      await sandboxes.setTimeout(readSandboxId(params), body.timeout);
      return { status: 204 };
    },
  }),
  // Never moves the expiry to an earlier time.
  defineRoute({
    method: "POST",
    path: "/sandboxes/{sandboxID}/refreshes",
    params: sandboxParams,
    body: refreshRequestSchema,
    replies: { 204: null },
    faults: [400, 404, 409],
    async handle({ params, body }, { sandboxes }) {
      await sandboxes.refresh(readSandboxId(params), body.duration ?? DEFAULT_REFRESH_SECONDS);
      return { status: 204 };
    },
  }),
  defineRoute({
    method: "POST",
    path: "/sandboxes/{sandboxID}/pause",
    params: sandboxParams,
    body: pauseRequestSchema.default({}),
    replies: { 204: null },
    replyHeaders: { "X-Pause-Mode": z.enum(["full", "filesystem"]) },
    faults: [400, 404, 409, 503],
    async handle({ params, body }, { sandboxes }) {
      const requiresDaemon = body.requireHealthyGuest ?? false;
      const keepsMemory = body.memory ?? true;
      const kept = await sandboxes.pause(readSandboxId(params), keepsMemory, requiresDaemon);
      return { status: 204, headers: { [PAUSE_MODE_HEADER]: kept ? "full" : "filesystem" } };
    },
  }),
  // The first generation requires the timeout.
  defineRoute({
    method: "POST",
    path: "/sandboxes/{sandboxID}/connect",
    params: sandboxParams,
    body: connectRequestSchema.extend(timeoutRequestSchema.shape),
    replies: { 200: sandboxSchema, 201: sandboxSchema },
    faults: [400, 404, 409],
    worded: [409],
    handle: async ({ params, body }, context) => connect(readSandboxId(params), body, context),
  }),
  defineRoute({
    method: "POST",
    path: "/v2/sandboxes/{sandboxID}/connect",
    params: sandboxParams,
    body: connectRequestSchema.default({}),
    replies: { 200: sandboxSchema, 201: sandboxSchema },
    faults: [400, 404, 409],
    worded: [409],
    async handle({ params, body }, context) {
      const sandboxId = readSandboxId(params);
      const timeout = requirePositive(body.timeout ?? DEFAULT_TIMEOUT_V2_SECONDS);
      return connect(sandboxId, { ...body, timeout }, context);
    },
  }),
  // Like connect, but only for a paused sandbox.
  defineRoute({
    method: "POST",
    path: "/sandboxes/{sandboxID}/resume",
    params: sandboxParams,
    body: resumeRequestSchema.default({}),
    replies: { 201: sandboxSchema },
    faults: [400, 404, 409],
    worded: [409],
    async handle({ params, body }, { sandboxes, domain }) {
      const sandboxId = readSandboxId(params);
      const sandbox = await sandboxes.resume(sandboxId, {
        timeoutSeconds: requirePositive(body.timeout ?? DEFAULT_TIMEOUT_SECONDS),
        keepsMemory: body.memory ?? true,
        pausesAtTimeout: body.autoPause,
      });
      return { status: 201, body: toSandboxBody(sandbox, domain) };
    },
  }),
  defineRoute({
    method: "POST",
    path: "/sandboxes/{sandboxID}/fork",
    creates: ({ count }) => Math.min(Math.max(count ?? DEFAULT_FORK_COUNT, 1), MAX_FORK_COUNT),
    params: sandboxParams,
    body: forkRequestSchema.default({}),
    replies: { 201: z.array(forkResultSchema) },
    faults: [400, 404, 409, 429],
    async handle({ params, body, signal }, { sandboxes, domain }) {
      const sandboxId = readSandboxId(params);
      const timeoutSeconds = requirePositive(body.timeout ?? DEFAULT_TIMEOUT_SECONDS);
      const count = body.count ?? DEFAULT_FORK_COUNT;
      const results = await sandboxes.fork(sandboxId, { count, timeoutSeconds, signal });
      return {
        status: 201,
        body: results.map((result) => {
          if ("sandbox" in result) return { sandbox: toCreatedBody(result.sandbox, domain) };
          return { error: toFault(result.error).body };
        }),
      };
    },
  }),
];

async function connect(
  sandboxId: string,
  { timeout, memory = true }: { readonly timeout: number; readonly memory?: boolean | undefined },
  { sandboxes, domain }: ControlContext,
): Promise<RouteReply> {
  const options = { timeoutSeconds: timeout, keepsMemory: memory };
  const { sandbox, wasResumed } = await sandboxes.connect(sandboxId, options);
  return { status: wasResumed ? 201 : 200, body: toSandboxBody(sandbox, domain) };
}
