/** Records of template builds: what a build gives its sandboxes, how it went, and what it said. */

import { RECORD_LEVELS, type RecordLevel } from "../common/log-level.ts";
import { z } from "../common/schema.ts";

/** What a sandbox can use. */
export const limitsSchema = z.object({
  memoryMb: z.number(),
  cpus: z.number(),
  diskMb: z.number(),
  pids: z.number(),
});

/** What each sandbox of a build gets besides its layers. Empty commands stand for none. */
export const templateSetupSchema = z.object({
  environment: z.record(z.string(), z.string()),
  /** Runs in the background at each start of a sandbox, as the default user. */
  startCommand: z.string(),
  /** Repeated until it succeeds before a sandbox is handed out. */
  readyCommand: z.string(),
  /** In the place of the limits of the service. */
  cpus: z.number().optional(),
  memoryMb: z.number().optional(),
  /** A kernel of their own, whatever other sandboxes of the service have. */
  isolation: z.literal("gvisor").optional(),
});

export type TemplateSetup = z.infer<typeof templateSetupSchema>;

/** A build that a client requested; what it made is the build record of the same identifier. */
export const templateBuildSchema = z.object({
  buildId: z.string(),
  templateId: z.string(),
  team: z.string(),
  /** The instance that runs it; matters only while it is `building`. */
  owner: z.string(),
  /** `waiting`: requested, its steps are not known yet. */
  status: z.enum(["waiting", "building", "ready", "error"]),
  tags: z.array(z.string()),
  cpus: z.number().optional(),
  memoryMb: z.number().optional(),
  createdAtMs: z.number(),
  updatedAtMs: z.number(),
  finishedAtMs: z.number().nullable(),
  /** Why it failed: the step is `base`, `finalize` or the number of a step, from 1. */
  reason: z.object({ message: z.string(), step: z.string() }).nullable(),
});

export type TemplateBuildRecord = z.infer<typeof templateBuildSchema>;

export interface TemplateBuildTable {
  get(buildId: string): TemplateBuildRecord | undefined;
  /** Inserts or replaces. */
  put(record: TemplateBuildRecord): void;
  remove(buildId: string): void;
  /** Newest first. */
  ofTemplate(templateId: string): TemplateBuildRecord[];
  unfinishedOfOwner(owner: string): TemplateBuildRecord[];
  /** Those that wait or run, of all teams. */
  open(): TemplateBuildRecord[];
  ids(): string[];
}

export interface BuildTag {
  readonly templateId: string;
  readonly tag: string;
  readonly buildId: string;
  /** When the tag came to stand on this build. */
  readonly createdAtMs: number;
}

export interface BuildLine {
  readonly atMs: number;
  readonly level: RecordLevel;
  readonly step: string;
  readonly message: string;
}

export const buildLevelSchema = z.enum(RECORD_LEVELS);

export interface BuildLineFilter {
  /** The lowest that counts. */
  readonly level: RecordLevel;
  readonly limit: number;
  /** Lines of the filter that are left out before the first one. */
  readonly offset: number;
  readonly direction: "forward" | "backward";
  /** Forward: no older line; backward: no newer one. */
  readonly cursorMs?: number | undefined;
}

export interface BuildLineTable {
  append(buildId: string, lines: readonly BuildLine[]): void;
  read(buildId: string, filter: BuildLineFilter): BuildLine[];
  remove(buildId: string): void;
  /** Of all builds that have lines. */
  buildIds(): string[];
}
