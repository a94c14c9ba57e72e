/** Bodies of the control API, in the wire's own spelling. Source: docs/wire.md. */

import { z } from "../common/schema.ts";
import {
  boundedPairs,
  boundedText,
  ENVIRONMENT_BOUNDS,
  MAX_MASKED_HOST_CHARACTERS,
  MAX_MOUNTS,
  MAX_NETWORK_ENTRIES,
  MAX_NETWORK_ENTRY_CHARACTERS,
  MAX_REFERENCE_CHARACTERS,
  METADATA_BOUNDS,
  mountPath,
} from "./bounds.ts";
import { errorBodySchema } from "./status.ts";

const MAX_INT32 = 2_147_483_647;
const seconds = z.int().min(0).max(MAX_INT32);
const stringMap = z.record(z.string(), z.string());

/** As many as a resolver asks, and some to spare. */
const MAX_DNS_SERVERS = 16;

const reference = boundedText(MAX_REFERENCE_CHARACTERS);
const networkEntries = z
  .array(boundedText(MAX_NETWORK_ENTRY_CHARACTERS))
  .max(MAX_NETWORK_ENTRIES)
  .optional();

/** As it is kept and told: records of an older home may exceed what a request may ask for. */
export const networkSchema = z.object({
  allowPublicTraffic: z.boolean().optional(),
  allowOut: z.array(z.string()).optional(),
  denyOut: z.array(z.string()).optional(),
  /** Name servers that may be reached besides where `allowOut` has a domain. */
  dnsServers: z.array(z.string()).optional(),
  maskRequestHost: z.string().optional(),
  /** Ports on which services speak TLS themselves. */
  httpsPorts: z.array(z.int().min(-MAX_INT32).max(MAX_INT32)).optional(),
  /** Not offered here; named so that they are refused rather than ignored. */
  rules: z.record(z.string(), z.unknown()).optional(),
  egressProxy: z.unknown().optional(),
});

const networkRequestSchema = networkSchema.extend({
  /** Null asks for the default. */
  allowPublicTraffic: z.boolean().nullish(),
  dnsServers: z.array(z.ipv4()).max(MAX_DNS_SERVERS).optional(),
  allowOut: networkEntries,
  denyOut: networkEntries,
  maskRequestHost: boundedText(MAX_MASKED_HOST_CHARACTERS).optional(),
});

/** Body of `PUT /sandboxes/{sandboxID}/network`. */
export const networkUpdateSchema = networkRequestSchema
  .pick({ allowOut: true, denyOut: true, dnsServers: true, rules: true, egressProxy: true })
  .extend({ allow_internet_access: z.boolean().optional() });

export type Network = z.infer<typeof networkSchema>;

const volumeMountSchema = z.object({ name: z.string(), path: z.string() });
const volumeMountRequestSchema = z.object({ name: reference, path: mountPath() });

/** Body of `POST /sandboxes`; `POST /v2/sandboxes` differs in defaults only. */
export const createRequestSchema = z.object({
  templateID: reference,
  timeout: seconds.optional(),
  autoPause: z.boolean().optional(),
  /** False: an automatic pause keeps the files only. */
  autoPauseMemory: z.boolean().optional(),
  autoResume: z.object({ enabled: z.boolean() }).optional(),
  secure: z.boolean().optional(),
  allow_internet_access: z.boolean().optional(),
  network: networkRequestSchema.optional(),
  metadata: boundedPairs(METADATA_BOUNDS).optional(),
  envVars: boundedPairs(ENVIRONMENT_BOUNDS).optional(),
  mcp: z.record(z.string(), z.unknown()).nullable().optional(),
  /** Not offered here; named so that it is refused rather than ignored. */
  iam: z.unknown().optional(),
  volumeMounts: z.array(volumeMountRequestSchema).max(MAX_MOUNTS).optional(),
  /** Ours alone: a kernel of its own for this sandbox, beside others that share the machine's. */
  isolation: z.literal("gvisor").optional(),
  /** Ours alone. False: of a snapshot with memory the files alone. */
  memory: z.boolean().optional(),
});

export type CreateRequest = z.infer<typeof createRequestSchema>;

/** Reply of create, connect and resume. */
export const sandboxSchema = z.object({
  templateID: z.string(),
  sandboxID: z.string(),
  clientID: z.string(),
  envdVersion: z.string(),
  alias: z.string().optional(),
  envdAccessToken: z.string().nullish(),
  trafficAccessToken: z.string().nullish(),
  domain: z.string().nullish(),
  /** Ours alone: how strongly it is separated from its host, and its network as in the detail. */
  isolation: z.string().optional(),
  allowInternetAccess: z.boolean().nullish(),
});

export type SandboxBody = z.infer<typeof sandboxSchema>;

/** Reply of create and of a fork. */
export const createdSandboxSchema = sandboxSchema.extend({
  /** Ours alone, of one that began from a snapshot: whether its programs went on, else why not. */
  memory: z.boolean().optional(),
  memoryReason: z.string().optional(),
});

export type CreatedSandboxBody = z.infer<typeof createdSandboxSchema>;

/** One sandbox of a list. */
export const listedSandboxSchema = z.object({
  templateID: z.string(),
  sandboxID: z.string(),
  clientID: z.string(),
  alias: z.string().optional(),
  startedAt: z.string(),
  endAt: z.string(),
  cpuCount: z.number(),
  memoryMB: z.number(),
  diskSizeMB: z.number(),
  state: z.enum(["running", "paused"]),
  envdVersion: z.string(),
  isolation: z.string().optional(),
  metadata: stringMap.optional(),
  volumeMounts: z.array(volumeMountSchema).optional(),
  envdUnresponsiveAtPause: z.boolean().optional(),
});

export type ListedSandboxBody = z.infer<typeof listedSandboxSchema>;

/** Reply of `GET /sandboxes/{sandboxID}`. */
export const sandboxDetailSchema = listedSandboxSchema.extend({
  envdAccessToken: z.string().nullish(),
  allowInternetAccess: z.boolean().nullish(),
  domain: z.string().nullish(),
  network: networkSchema.omit({ rules: true, egressProxy: true }).optional(),
  lifecycle: z
    .object({ autoResume: z.boolean(), onTimeout: z.enum(["kill", "pause"]).optional() })
    .optional(),
  pauseMode: z.enum(["full", "filesystem"]).optional(),
  /** Ours alone, of a paused one with memory: on disk, it outlives the service and the machine's restart. */
  pausedMemory: z.enum(["process", "disk"]).optional(),
  /** Ours alone, of memory on disk: why it does not come back here. */
  pausedMemoryFault: z.string().optional(),
  /** Ours alone, of a paused one. `disk_full`: the service resumes it when its disk has space. */
  pauseReason: z.enum(["request", "timeout", "disk_full"]).optional(),
  /** Ours alone: what this kind of sandbox cannot do, where it lacks something. */
  missingAbilities: z.array(z.string()).optional(),
});

export type SandboxDetailBody = z.infer<typeof sandboxDetailSchema>;

export const timeoutRequestSchema = z.object({ timeout: seconds });
export const connectRequestSchema = z.object({
  timeout: seconds.optional(),
  memory: z.boolean().optional(),
});
/** Body of `POST /sandboxes/{sandboxID}/resume`. */
export const resumeRequestSchema = connectRequestSchema.extend({
  autoPause: z.boolean().optional(),
});
/** Body of `POST /sandboxes/{sandboxID}/refreshes`. */
export const refreshRequestSchema = z.object({ duration: z.int().min(0).max(3600).optional() });
export const pauseRequestSchema = z.object({
  memory: z.boolean().optional(),
  requireHealthyGuest: z.boolean().optional(),
});
/** Body of `POST /sandboxes/{sandboxID}/fork`. */
export const forkRequestSchema = z.object({
  timeout: seconds.optional(),
  count: z.int().min(-MAX_INT32).max(MAX_INT32).optional(),
});
export const snapshotRequestSchema = z.object({
  name: reference.optional(),
  /** False: files alone. Else memory is kept where it can be; the reply says whether it was. */
  memory: z.boolean().optional(),
});

/** Reply of snapshot creation. */
export const snapshotSchema = z.object({ snapshotID: z.string(), names: z.array(z.string()) });

export type SnapshotBody = z.infer<typeof snapshotSchema>;

/** Reply of snapshot creation, with what it carries: ours alone. */
export const newSnapshotSchema = snapshotSchema.extend({
  memory: z.boolean(),
  /** Why files alone were kept. */
  memoryReason: z.string().optional(),
});

/** Reply of `GET /sandboxes/{sandboxID}/logs`: the same records twice, raw and taken apart. */
export const logsSchema = z.object({
  logs: z.array(z.object({ timestamp: z.string(), line: z.string() })),
  logEntries: z.array(
    z.object({
      timestamp: z.string(),
      message: z.string(),
      level: z.string(),
      fields: stringMap,
    }),
  ),
});

export type LogsBody = z.infer<typeof logsSchema>;

/** Reply of `GET /v2/sandboxes/{sandboxID}/logs`. */
export const foundLogsSchema = z.object({ logs: logsSchema.shape.logEntries });

/** One copy of a fork: the new sandbox, or why there is none. */
export const forkResultSchema = z.object({
  sandbox: createdSandboxSchema.optional(),
  error: errorBodySchema.optional(),
});

export type ForkResultBody = z.infer<typeof forkResultSchema>;

/** Body of `POST /volumes`. */
export const volumeRequestSchema = z.object({ name: reference });

/** Reply of `GET /volumes/{volumeID}`. */
export const volumeSchema = z.object({
  /** Of the service that has its content. */
  domain: z.string().nullish(),
  volumeID: z.string(),
  name: z.string(),
  token: z.string(),
  /** Of its disk; left out for a volume that is limited by the disk of the service alone. */
  sizeMB: z.number().optional(),
});

export type VolumeBody = z.infer<typeof volumeSchema>;

/** Reply of `POST /volumes`. */
export const createdVolumeSchema = volumeSchema.omit({ sizeMB: true });

/** One of `GET /volumes`. */
export const listedVolumeSchema = volumeSchema.omit({ token: true, domain: true });

export type ListedVolumeBody = z.infer<typeof listedVolumeSchema>;

/** One sample of `GET /sandboxes/{sandboxID}/metrics`. */
export const metricSchema = z.object({
  timestamp: z.string(),
  timestampUnix: z.number(),
  cpuCount: z.number(),
  /** Of all processors together, 0 to 100. */
  cpuUsedPct: z.number(),
  /** Bytes, as all sizes of a sample. */
  memUsed: z.number(),
  memTotal: z.number(),
  memCache: z.number(),
  diskUsed: z.number(),
  diskTotal: z.number(),
  /** Processes that the kernel ended for lack of memory; absent where it does not count them. */
  oomKills: z.number().optional(),
});

export type MetricBody = z.infer<typeof metricSchema>;
