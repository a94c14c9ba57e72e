/** Bodies of template builds, as both ends have them. */

import { RECORD_LEVELS } from "../common/log-level.ts";
import { z } from "../common/schema.ts";
import { boundedText } from "./bounds.ts";

/** Three parts of a reference, as in requests for sandboxes. */
const MAX_NAME_CHARACTERS = 128;
const MAX_TAGS = 100;
const MAX_CPUS = 1024;
const MIN_MEMORY_MB = 128;
const MAX_MEMORY_MB = 1_048_576;
const MAX_DISK_MB = 16_777_216;
const MAX_IMAGE_CHARACTERS = 512;
/** A service account is a JSON document with a private key. */
const MAX_SECRET_CHARACTERS = 16_384;

/** Body of `POST /v3/templates`. */
export const buildRequestSchema = z.object({
  name: boundedText(MAX_NAME_CHARACTERS).optional(),
  /** What older clients send for the name. */
  alias: boundedText(MAX_NAME_CHARACTERS).optional(),
  tags: z.array(boundedText(MAX_NAME_CHARACTERS)).max(MAX_TAGS).optional(),
  cpuCount: z.int().min(1).max(MAX_CPUS).optional(),
  memoryMB: z.int().min(MIN_MEMORY_MB).max(MAX_MEMORY_MB).optional(),
  minFreeDiskMb: z.int().min(0).max(MAX_DISK_MB).optional(),
  teamID: z.string().max(MAX_NAME_CHARACTERS).optional(),
});

export type BuildRequestBody = z.infer<typeof buildRequestSchema>;

/** Its reply. */
export const requestedBuildSchema = z.object({
  templateID: z.string(),
  buildID: z.string(),
  public: z.boolean(),
  names: z.array(z.string()),
  tags: z.array(z.string()),
  aliases: z.array(z.string()),
});

/** Reply of `GET /templates/{templateID}/files/{hash}`. */
export const uploadSchema = z.object({ present: z.boolean(), url: z.string() });

const secret = z.string().min(1).max(MAX_SECRET_CHARACTERS);

const registrySchema = z.discriminatedUnion("type", [
  z.object({ type: z.literal("registry"), username: secret, password: secret }),
  z.object({
    type: z.literal("aws"),
    awsAccessKeyId: secret,
    awsSecretAccessKey: secret,
    awsRegion: secret,
  }),
  z.object({ type: z.literal("gcp"), serviceAccountJson: secret }),
]);

export type RegistryBody = z.infer<typeof registrySchema>;

const stepSchema = z.object({
  type: z.enum(["COPY", "RUN", "ENV", "ARG", "WORKDIR", "USER"]),
  args: z.array(z.string()).default([]),
  filesHash: z.string().optional(),
  force: z.boolean().default(false),
});

/** Body of `POST /v2/templates/{templateID}/builds/{buildID}`. */
export const buildPlanSchema = z.object({
  fromImage: boundedText(MAX_IMAGE_CHARACTERS).min(1).optional(),
  fromTemplate: boundedText(MAX_IMAGE_CHARACTERS).min(1).optional(),
  fromImageRegistry: registrySchema.optional(),
  force: z.boolean().default(false),
  steps: z.array(stepSchema).default([]),
  startCmd: z.string().optional(),
  readyCmd: z.string().optional(),
  /** Of this service alone: the steps are those of a Dockerfile. */
  fromDockerfile: z.boolean().optional(),
  /** Of this service alone: the level of the template's sandboxes. */
  isolation: z.literal("gvisor").optional(),
});

export type BuildPlanBody = z.input<typeof buildPlanSchema>;

const lineSchema = z.object({
  timestamp: z.string(),
  level: z.enum(RECORD_LEVELS),
  message: z.string(),
  step: z.string(),
});

export type BuildLineBody = z.infer<typeof lineSchema>;

/** Reply of `GET /templates/{templateID}/builds/{buildID}/status`. */
export const buildStatusSchema = z.object({
  templateID: z.string(),
  buildID: z.string(),
  status: z.enum(["waiting", "building", "ready", "error"]),
  logs: z.array(z.string()),
  logEntries: z.array(lineSchema),
  reason: z
    .object({ message: z.string(), step: z.string(), logEntries: z.array(lineSchema) })
    .optional(),
});

export type BuildStatusBody = z.infer<typeof buildStatusSchema>;

/** Reply of `GET /templates/{templateID}/builds/{buildID}/logs`. */
export const buildLogsSchema = z.object({ logs: z.array(lineSchema) });
