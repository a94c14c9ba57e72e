/** From records and descriptions to bodies of the wire. */

import {
  type ErrorCode,
  hidePaths,
  isCode,
  SandboxError,
  type SandboxErrorOptions,
} from "../common/errors.ts";
import { shortageOf } from "../common/shortage.ts";
import type { CarriedMemory } from "../sandboxes/builds/memory.ts";
import type { ListedSandbox } from "../sandboxes/list-sandboxes.ts";
import type { Sandbox, StartedSandbox } from "../sandboxes/sandbox.ts";
import type { Snapshot } from "../sandboxes/snapshots/snapshots.ts";
import type { Build, ListedTemplate, Tag, Template } from "../sandboxes/templates/templates.ts";
import type { Sample } from "../sandboxes/usage-meter.ts";
import type {
  ListedTemplateBody,
  TemplateBody,
  TemplateTagBody,
} from "../wire/control-templates.ts";
import type {
  CreatedSandboxBody,
  ListedSandboxBody,
  MetricBody,
  SandboxBody,
  SandboxDetailBody,
  SnapshotBody,
} from "../wire/control.ts";
import { CLIENT_ID, ENVD_VERSION } from "../wire/headers.ts";
import { CONTROL_STATUS, type ErrorBody } from "../wire/status.ts";

const DISK_FULL_STATUS = 507;
const INTERNAL_TEXT = "internal error";

/** How an error leaves. */
export interface Fault {
  readonly status: number;
  readonly body: ErrorBody;
  readonly retryAfterSeconds: number | undefined;
}

/** The reply to an error; what is not ours to tell stays inside. */
export function toFault(error: unknown): Fault {
  const { word, retryAfterSeconds } =
    error instanceof SandboxError ? error : { word: undefined, retryAfterSeconds: undefined };
  if (isCode(error, "ENOSPC")) {
    return toReply(DISK_FULL_STATUS, "no space left on the disk of the service", { word });
  }
  if (!(error instanceof SandboxError) || error.code === "internal") {
    const shortage = shortageOf(error);
    if (shortage !== undefined) {
      const text = `${shortage.message} (${shortage.hint})`;
      return toReply(statusOf(error, "unavailable"), text, { word, retryAfterSeconds });
    }
    return toReply(CONTROL_STATUS.internal, INTERNAL_TEXT, { word: "internal_server_error" });
  }
  const message = error.hint === undefined ? error.message : `${error.message} (${error.hint})`;
  const isPlain = IS_ABOUT_REQUEST[error.code] || error.hasSandboxPaths;
  const told = isPlain ? message : hidePaths(message);
  if (word === "idempotency_request_mismatch")
    return toReply(422, told, { word, retryAfterSeconds });
  return toReply(statusOf(error, error.code), told, { word, retryAfterSeconds });
}

function statusOf(error: unknown, code: ErrorCode): number {
  return isCode(error, "EDQUOT") ? DISK_FULL_STATUS : CONTROL_STATUS[code];
}

function toReply(
  status: number,
  message: string,
  { word, retryAfterSeconds }: Pick<SandboxErrorOptions, "word" | "retryAfterSeconds">,
): Fault {
  const body = { code: status, message, ...(word !== undefined && { error_code: word }) };
  return { status, body, retryAfterSeconds };
}

/**
 * Whether messages of a code speak of the request alone, whose paths are those of a sandbox. The
 * others may quote the system or a runtime, which speak of paths of the machine.
 */
const IS_ABOUT_REQUEST = {
  invalid_argument: true,
  not_found: true,
  already_exists: true,
  unauthenticated: false,
  permission_denied: false,
  failed_precondition: false,
  resource_exhausted: false,
  deadline_exceeded: false,
  canceled: false,
  unavailable: false,
  unimplemented: false,
  internal: false,
} as const satisfies Record<ErrorCode, boolean>;

export function toTime(atMs: number): string {
  return new Date(atMs).toISOString();
}

/** Reply of connect and resume. */
export function toSandboxBody(sandbox: StartedSandbox, domain: string | null): SandboxBody {
  return {
    templateID: sandbox.templateId,
    sandboxID: sandbox.sandboxId,
    clientID: CLIENT_ID,
    envdVersion: ENVD_VERSION,
    ...(sandbox.alias !== undefined && { alias: sandbox.alias }),
    envdAccessToken: sandbox.accessToken ?? null,
    trafficAccessToken: sandbox.trafficToken ?? null,
    domain,
    isolation: sandbox.isolation,
    allowInternetAccess: sandbox.allowsInternet ?? null,
  };
}

/** Reply of create, and one copy of a fork. */
export function toCreatedBody(sandbox: StartedSandbox, domain: string | null): CreatedSandboxBody {
  const { memory } = sandbox;
  return {
    ...toSandboxBody(sandbox, domain),
    ...(memory !== undefined && toMemoryFields(memory)),
  };
}

/** Whether memory came along; else why not. */
export function toMemoryFields({ isCarried, reason }: CarriedMemory) {
  return { memory: isCarried, ...(reason !== undefined && { memoryReason: reason }) };
}

export function toListedBody(sandbox: ListedSandbox): ListedSandboxBody {
  return {
    templateID: sandbox.templateId,
    sandboxID: sandbox.sandboxId,
    clientID: CLIENT_ID,
    ...(sandbox.alias !== undefined && { alias: sandbox.alias }),
    // A pause is of the present, and the clock may have been set back since the start.
    startedAt: toTime(Math.min(sandbox.startedAtMs, sandbox.endAtMs)),
    endAt: toTime(sandbox.endAtMs),
    cpuCount: sandbox.limits.cpus,
    memoryMB: sandbox.limits.memoryMb,
    diskSizeMB: sandbox.limits.diskMb,
    state: sandbox.state,
    envdVersion: ENVD_VERSION,
    ...(sandbox.isolation !== undefined && { isolation: sandbox.isolation }),
    ...(sandbox.metadata !== undefined && { metadata: { ...sandbox.metadata } }),
    volumeMounts: sandbox.volumeMounts.map(({ name, path }) => ({ name, path })),
    ...(sandbox.isDaemonUnresponsive && { envdUnresponsiveAtPause: true }),
  };
}

/** `memoryFault`: why memory on disk does not come back. */
export function toDetailBody(
  sandbox: Sandbox,
  {
    domain,
    memoryFault,
  }: { readonly domain: string | null; readonly memoryFault?: string | undefined },
): SandboxDetailBody {
  const isOnDisk = sandbox.state === "paused" && sandbox.hasMemory && sandbox.isOnDisk === true;
  return {
    ...toListedBody(sandbox),
    envdAccessToken: sandbox.accessToken ?? null,
    allowInternetAccess: sandbox.allowsInternet ?? null,
    domain,
    ...(sandbox.network !== undefined && { network: sandbox.network }),
    lifecycle: {
      autoResume: sandbox.resumesOnTraffic,
      onTimeout: sandbox.pausesAtTimeout ? "pause" : "kill",
    },
    ...(sandbox.state === "paused" && { pauseMode: sandbox.hasMemory ? "full" : "filesystem" }),
    ...(sandbox.state === "paused" &&
      sandbox.hasMemory && { pausedMemory: isOnDisk ? "disk" : "process" }),
    ...(isOnDisk && memoryFault !== undefined && { pausedMemoryFault: memoryFault }),
    ...(sandbox.state === "paused" &&
      sandbox.pauseReason !== null && { pauseReason: sandbox.pauseReason }),
    ...(sandbox.missingAbilities !== undefined && {
      missingAbilities: [...sandbox.missingAbilities],
    }),
  };
}

/** Reply of snapshot creation, and an entry of a list. */
export function toSnapshotBody({ snapshotId, names }: Snapshot): SnapshotBody {
  return { snapshotID: snapshotId, names: [...names] };
}

function namesOf({ name }: Template) {
  if (name === null) return { aliases: [], names: [] };
  return { aliases: [name.split("/").at(-1) ?? name], names: [name] };
}

/** One tag of `GET /templates/{templateID}/tags`. */
export function toTagBody({ tag, buildId, createdAtMs }: Tag): TemplateTagBody {
  return { tag, buildID: buildId, createdAt: toTime(createdAtMs) };
}

function toNullableTime(atMs: number | null): string | null {
  return atMs === null ? null : toTime(atMs);
}

/** Reply of `GET /templates/{templateID}`. */
export function toTemplateBody(template: Template, builds: readonly Build[]): TemplateBody {
  return {
    templateID: template.templateId,
    public: template.isPublic,
    ...namesOf(template),
    createdAt: toTime(template.createdAtMs),
    updatedAt: toTime(template.updatedAtMs),
    lastSpawnedAt: toNullableTime(template.lastSpawnedAtMs),
    spawnCount: template.spawnCount,
    builds: builds.map((build) => ({
      buildID: build.buildId,
      status: build.status,
      createdAt: toTime(build.createdAtMs),
      updatedAt: toTime(build.updatedAtMs),
      ...(build.finishedAtMs !== null && { finishedAt: toTime(build.finishedAtMs) }),
      cpuCount: build.limits.cpus,
      memoryMB: build.limits.memoryMb,
      diskSizeMB: build.limits.diskMb,
      envdVersion: ENVD_VERSION,
      ...startOf(build),
    })),
  };
}

function startOf({ setup }: Pick<Build, "setup">) {
  return setup === undefined || setup.startCommand === "" ? {} : { startCmd: setup.startCommand };
}

/** An entry of `GET /templates`. */
export function toListedTemplate(entry: ListedTemplate): ListedTemplateBody {
  const { template, newest, buildCount } = entry;
  return {
    templateID: template.templateId,
    buildID: newest.buildId,
    cpuCount: newest.limits.cpus,
    memoryMB: newest.limits.memoryMb,
    diskSizeMB: newest.limits.diskMb,
    public: template.isPublic,
    ...namesOf(template),
    createdAt: toTime(template.createdAtMs),
    updatedAt: toTime(template.updatedAtMs),
    createdBy: null,
    lastSpawnedAt: toNullableTime(template.lastSpawnedAtMs),
    spawnCount: template.spawnCount,
    buildCount,
    envdVersion: ENVD_VERSION,
    buildStatus: "ready",
    ...startOf(newest),
  };
}

/** One sample of what a sandbox used. */
export function toMetricBody(sample: Sample): MetricBody {
  return {
    timestamp: toTime(sample.atMs),
    timestampUnix: Math.floor(sample.atMs / 1000),
    cpuCount: sample.cpuCount,
    cpuUsedPct: sample.cpuUsedPercent,
    memUsed: sample.memoryBytes,
    memTotal: sample.memoryTotalBytes,
    memCache: sample.cacheBytes,
    diskUsed: sample.diskBytes,
    diskTotal: sample.diskTotalBytes,
    ...(sample.outOfMemoryKills !== undefined && { oomKills: sample.outOfMemoryKills }),
  };
}
