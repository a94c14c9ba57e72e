/** From records of template builds to bodies of the wire. */

import type { BuildStatus, TemplateBuilds } from "../sandboxes/template-builds/template-builds.ts";
import type { BuildLineBody, BuildStatusBody } from "../wire/template-builds.ts";

type Requested = ReturnType<TemplateBuilds["request"]>;

/** Reply of `POST /v3/templates`. */
export function toRequestedBuild({ template, build }: Requested) {
  const { templateId, isPublic, name } = template;
  const alias = name?.split("/").at(-1);
  return {
    templateID: templateId,
    buildID: build.buildId,
    public: isPublic,
    names: name === null ? [] : [name],
    tags: [...build.tags],
    aliases: alias === undefined ? [] : [alias],
  };
}

export function toBuildLine(line: BuildStatus["lines"][number]): BuildLineBody {
  const { atMs, level, message, step } = line;
  return { timestamp: new Date(atMs).toISOString(), level, message, step };
}

export function toBuildStatusBody({ build, lines, reasonLines }: BuildStatus): BuildStatusBody {
  const { templateId, buildId, status, reason } = build;
  return {
    templateID: templateId,
    buildID: buildId,
    status,
    logs: lines.map(({ message }) => message),
    logEntries: lines.map(toBuildLine),
    ...(reason !== null && { reason: { ...reason, logEntries: reasonLines.map(toBuildLine) } }),
  };
}
