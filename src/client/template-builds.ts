/** Template builds over the control API: requested, fed with files, started, followed. */

import type { Readable } from "node:stream";
import { request } from "undici";
import { SandboxError, toSandboxError } from "../common/errors.ts";
import { readBounded } from "../common/http.ts";
import type { z } from "../common/schema.ts";
import { quoteName } from "../common/untrusted-text.ts";
import {
  buildStatusSchema,
  requestedBuildSchema,
  uploadSchema,
  type BuildPlanBody,
  type BuildRequestBody,
  type BuildStatusBody,
} from "../wire/template-builds.ts";
import {
  parseBody,
  requireAccepted,
  WRITING,
  type ControlCaller,
  type ControlOptions,
} from "./control-call.ts";
import { templatePath } from "./control-templates.ts";

const MAX_REPLY_BYTES = 65_536;

export interface BuildRef {
  readonly templateId: string;
  readonly buildId: string;
}

/** Every operation throws SandboxError with the code that the reply's status stands for. */
export interface TemplateBuildRoutes {
  requestBuild(
    wanted: BuildRequestBody,
    signal: AbortSignal,
  ): Promise<z.infer<typeof requestedBuildSchema>>;
  /** Whether the service has the archive of a hash, and the address that takes it. */
  buildFiles(
    templateId: string,
    hash: string,
    signal: AbortSignal,
  ): Promise<z.infer<typeof uploadSchema>>;
  /** Sends an archive of exactly so many bytes. */
  uploadFiles(
    url: string,
    archive: { readonly bytes: number; readonly content: Readable },
    signal: AbortSignal,
  ): Promise<void>;
  startBuild(build: BuildRef, plan: BuildPlanBody, signal: AbortSignal): Promise<void>;
  /** The status, and the lines of the log from the offset on, at most 100. */
  buildStatus(build: BuildRef, offset: number, signal: AbortSignal): Promise<BuildStatusBody>;
}

export function createTemplateBuildRoutes(
  caller: ControlCaller,
  { connection }: ControlOptions,
): TemplateBuildRoutes {
  const { read, send } = caller;
  return {
    async requestBuild(wanted, signal) {
      const subject = `request build of ${quoteName(wanted.name ?? "template")}`;
      const call = { ...WRITING, path: "/v3/templates", json: wanted, signal, subject };
      return parseBody(await send(call), requestedBuildSchema, subject);
    },

    buildFiles: (templateId, hash, signal) =>
      read(
        { path: `${templatePath(templateId)}/files/${hash}`, signal, subject: "files of a build" },
        uploadSchema,
      ),

    async uploadFiles(url, { bytes, content }, signal) {
      const subject = "upload files";
      try {
        const reply = await request(url, {
          dispatcher: connection.dispatcher,
          method: "PUT",
          headers: { "content-length": String(bytes) },
          body: content,
          signal,
          bodyTimeout: 0,
          headersTimeout: 0,
        });
        const { statusCode: status, headers } = reply;
        const body = await readBounded(reply.body, MAX_REPLY_BYTES, subject);
        requireAccepted({ status, headers, body }, subject);
      } catch (error) {
        throw toSandboxError(error, subject);
      }
    },

    async startBuild(build, plan, signal) {
      const subject = `start build ${quoteName(build.buildId)}`;
      const path = `/v2${buildPath(build)}`;
      const reply = await send({ ...WRITING, path, json: plan, signal, subject });
      requireAccepted(reply, subject);
    },

    buildStatus(build, offset, signal) {
      if (!Number.isSafeInteger(offset)) throw new SandboxError("invalid_argument", "bad offset");
      const path = `${buildPath(build)}/status?logsOffset=${offset}&limit=100&level=info`;
      const call = { path, signal, subject: `status of build ${quoteName(build.buildId)}` };
      return read(call, buildStatusSchema);
    },
  };
}

function buildPath({ templateId, buildId }: BuildRef): string {
  return `${templatePath(templateId)}/builds/${encodeURIComponent(buildId)}`;
}
