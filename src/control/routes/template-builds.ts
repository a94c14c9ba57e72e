/** Building templates: a request, archives of files, steps, and how it goes. */

import { totalmem } from "node:os";
import { SandboxError } from "../../common/errors.ts";
import { RECORD_LEVELS } from "../../common/log-level.ts";
import { z } from "../../common/schema.ts";
import type { BuildPlan } from "../../sandboxes/template-builds/build-request.ts";
import { wholeNumber } from "../../wire/bounds.ts";
import {
  buildLogsSchema,
  buildPlanSchema,
  buildRequestSchema,
  buildStatusSchema,
  requestedBuildSchema,
  uploadSchema,
  type RegistryBody,
} from "../../wire/template-builds.ts";
import { toBuildLine, toBuildStatusBody, toRequestedBuild } from "../build-reply.ts";
import { defineRoute, type Route } from "../route.ts";
import { uploadUrl } from "../uploads.ts";

const MAX_PAGE = 100;
const BYTES_PER_MB = 1024 ** 2;

const buildParams = z.object({ templateID: z.string(), buildID: z.string() });
const level = z.enum(RECORD_LEVELS).default("debug");
const limit = wholeNumber(0, MAX_PAGE).default(MAX_PAGE);

type RegistryLogin = NonNullable<Extract<BuildPlan["from"], { readonly kind: "image" }>["login"]>;

export const templateBuildRoutes: readonly Route[] = [
  // A build that waits for its steps.
  defineRoute({
    method: "POST",
    path: "/v3/templates",
    body: buildRequestSchema,
    replies: { 202: requestedBuildSchema },
    faults: [400, 429],
    async handle({ body }, { sandboxes }) {
      const { name = body.alias, tags = [], cpuCount: cpus, memoryMB: memoryMb } = body;
      if (name === undefined) throw refuse("validation error: body: name: is required");
      const machineMb = Math.floor(totalmem() / BYTES_PER_MB);
      if (memoryMb !== undefined && memoryMb > machineMb) {
        throw refuse(`memoryMB ${memoryMb} is more than this machine has: ${machineMb}`);
      }
      const requested = sandboxes.builds.request({ name, tags, cpus, memoryMb });
      return { status: 202, body: toRequestedBuild(requested) };
    },
  }),
  // Where the archive of a COPY step goes; the address is the permission.
  defineRoute({
    method: "GET",
    path: "/templates/{templateID}/files/{hash}",
    params: z.object({ templateID: z.string(), hash: z.string() }),
    replies: { 201: uploadSchema },
    faults: [400, 403, 404],
    async handle({ params, origin }, { sandboxes }) {
      const { isThere, token } = await sandboxes.builds.files(params.templateID, params.hash);
      return { status: 201, body: { present: isThere, url: uploadUrl(origin, token) } };
    },
  }),
  // Older builds for a tag of this one that run are cancelled.
  defineRoute({
    method: "POST",
    path: "/v2/templates/{templateID}/builds/{buildID}",
    params: buildParams,
    body: buildPlanSchema,
    creates: () => 1,
    replies: { 202: null },
    faults: [400, 403, 404, 429],
    async handle({ params, body }, { sandboxes }) {
      await sandboxes.builds.start(params.templateID, params.buildID, toPlan(body));
      return { status: 202 };
    },
  }),
  // The status, and a page of the log; the offset counts lines of the level.
  defineRoute({
    method: "GET",
    path: "/templates/{templateID}/builds/{buildID}/status",
    params: buildParams,
    query: z.object({ logsOffset: wholeNumber(0).default(0), limit, level }),
    replies: { 200: buildStatusSchema },
    faults: [400, 403, 404],
    async handle({ params, query }, { sandboxes }) {
      const status = sandboxes.builds.status(params.templateID, params.buildID, {
        level: query.level,
        limit: query.limit,
        offset: query.logsOffset,
        direction: "forward",
      });
      return { status: 200, body: toBuildStatusBody(status) };
    },
  }),
  // From a moment on, or back from it.
  defineRoute({
    method: "GET",
    path: "/templates/{templateID}/builds/{buildID}/logs",
    params: buildParams,
    query: z.object({
      cursor: wholeNumber(0, Number.MAX_SAFE_INTEGER).optional(),
      limit,
      direction: z.enum(["forward", "backward"]).default("forward"),
      level,
      source: z.enum(["temporary", "persistent"]).optional(),
    }),
    replies: { 200: buildLogsSchema },
    faults: [400, 403, 404],
    async handle({ params, query }, { sandboxes }) {
      const { cursor: cursorMs, source: _source, ...filter } = query;
      const lines = sandboxes.builds.lines(params.templateID, params.buildID, {
        ...filter,
        offset: 0,
        cursorMs,
      });
      return { status: 200, body: { logs: lines.map(toBuildLine) } };
    },
  }),
];

function toPlan(body: z.output<typeof buildPlanSchema>): BuildPlan {
  const {
    fromImage,
    fromTemplate,
    fromImageRegistry: registry,
    startCmd,
    readyCmd,
    ...rest
  } = body;
  if ((fromImage === undefined) === (fromTemplate === undefined)) {
    throw refuse("validation error: body: either fromImage or fromTemplate is required");
  }
  const commands = { startCommand: startCmd, readyCommand: readyCmd };
  if (fromTemplate !== undefined) {
    return { ...rest, ...commands, from: { kind: "template", reference: fromTemplate } };
  }
  const login = registry && toLogin(registry);
  return { ...rest, ...commands, from: { kind: "image", reference: fromImage ?? "", login } };
}

function toLogin(registry: RegistryBody): RegistryLogin {
  if (registry.type === "gcp") return { kind: "gcp", serviceAccount: registry.serviceAccountJson };
  if (registry.type === "registry") {
    return { kind: "password", username: registry.username, password: registry.password };
  }
  const { awsAccessKeyId, awsSecretAccessKey, awsRegion } = registry;
  return {
    kind: "aws",
    accessKeyId: awsAccessKeyId,
    secretAccessKey: awsSecretAccessKey,
    region: awsRegion,
  };
}

function refuse(message: string): SandboxError {
  return new SandboxError("invalid_argument", message);
}
