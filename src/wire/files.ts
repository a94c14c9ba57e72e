/** Bodies of the plain HTTP file endpoints, and the calls that only the host makes to the daemon. */

import { RECORD_LEVELS } from "../common/log-level.ts";
import { z } from "../common/schema.ts";

/** Body of `POST /files/compose`. */
export const composeRequestSchema = z.object({
  source_paths: z.array(z.string()),
  destination: z.string(),
  username: z.string().nullish(),
});

/** One file of an upload or compose reply. */
export const fileRecordSchema = z.object({
  path: z.string(),
  name: z.string(),
  type: z.enum(["file", "directory"]),
  metadata: z.record(z.string(), z.string()).optional(),
});

export type FileRecord = z.infer<typeof fileRecordSchema>;

/** Body of `POST /init`, on the host's own channel only. */
export const initRequestSchema = z.object({
  /** Absent: the sandbox takes calls without a token. */
  accessToken: z.string().min(1).optional(),
  envVars: z.record(z.string(), z.string()).optional(),
  defaultUser: z.string().optional(),
  defaultWorkdir: z.string().optional(),
  /** Orders repeated calls: older ones are ignored. */
  timestamp: z.iso.datetime({ offset: true }).optional(),
});

export type InitRequest = z.infer<typeof initRequestSchema>;

/** Whether the sandbox can connect to an address: asked by its host alone. */
export const reachRequestSchema = z.object({
  host: z.union([z.ipv4(), z.ipv6()]),
  port: z.int().min(1).max(65_535),
});

export type ReachRequest = z.infer<typeof reachRequestSchema>;

/** A line of the daemon's log, as it travels to the service. */
export const daemonLogLineSchema = z.looseObject({
  level: z.enum(RECORD_LEVELS),
  timestamp: z.string(),
  message: z.string(),
});
