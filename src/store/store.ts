/**
 * The border of the store: records that outlive the process, in tables with typed operations.
 * Several processes may have the same files open; every call is a short transaction of its own
 * unless it runs inside `transaction`.
 */

import { z } from "../common/schema.ts";
import {
  limitsSchema,
  templateSetupSchema,
  type BuildLineTable,
  type BuildTag,
  type TemplateBuildTable,
} from "./build-records.ts";
import type { LogTable } from "./log-records.ts";
import type { SnapshotTable } from "./snapshot-records.ts";

export type { BuildTag, TemplateSetup } from "./build-records.ts";

/** The team of a key that names none, and of records that were written before there were teams. */
export const DEFAULT_TEAM = "local";

const atMs = z.number();
const stringMap = z.record(z.string(), z.string());

/** Of records that were written before it was kept. */
const DEFAULT_TIMEOUT_SECONDS = 300;

const team = z.string().default(DEFAULT_TEAM);

/** Whether memory came along with files, else why not. */
const carriedMemorySchema = z.object({
  isCarried: z.boolean(),
  reason: z.string().optional(),
});

/**
 * A sandbox as it must be found again after a crash. `pooled`, `starting` and `ending` are intents:
 * a row in such a state whose owner is gone is removed together with whatever carries its name.
 */
export const sandboxRecordSchema = z.object({
  sandboxId: z.string(),
  /** The instance that runs it; no other instance touches it while that one lives. */
  owner: z.string(),
  /** The owner: to every other team it does not exist. */
  team,
  templateId: z.string(),
  buildId: z.string(),
  alias: z.string().nullable(),
  state: z.enum(["pooled", "starting", "running", "paused", "ending"]),
  endReason: z.string().optional(),
  isSecured: z.boolean(),
  /** Ports other than the daemon's ask for the traffic token. */
  isPrivate: z.boolean(),
  pausesAtTimeout: z.boolean(),
  resumesOnTraffic: z.boolean(),
  /** Whether the pause at its timeout keeps memory. */
  keepsMemory: z.boolean().default(true),
  /** Paused: whether its memory is there, and of no use; connect boots it from its disk then. */
  hasMemory: z.boolean().default(true),
  isDaemonUnresponsive: z.boolean().default(false),
  /** Of a paused one; null for one that was paused before it was kept. */
  pauseReason: z.enum(["request", "timeout", "disk_full"]).nullable().default(null),
  /** Of one that was paused for want of disk space: the rest of its time to live. */
  leftMs: z.number().default(0),
  /** Of the present or last run, from start or boot on; a resume with memory keeps it. */
  bootId: z.string().default(""),
  /** The time to live given at creation: what traffic that wakes the sandbox gives it anew. */
  timeoutSeconds: z.number().default(DEFAULT_TIMEOUT_SECONDS),
  /** Start of the present or last run. */
  startedAtMs: atMs,
  /** Running: the moment of expiry. Paused: the moment of pausing. */
  endAtMs: atMs,
  limits: limitsSchema,
  allowsInternet: z.boolean().nullable(),
  network: z.record(z.string(), z.unknown()).nullable(),
  /** Whether other rules than these may hold: a change of them was begun. */
  owesEgress: z.boolean().optional(),
  metadata: stringMap.nullable(),
  volumeMounts: z
    .array(z.object({ name: z.string(), path: z.string(), volumeId: z.string() }))
    .default([]),
  /** Servers of the gateway that its programs were started for. */
  mcpServers: z.array(z.string()).default([]),
  /** The environment given at creation, sealed under the seed of the home. */
  sealedEnvironment: z.string().nullable(),
  /** Of one that began from a snapshot: whether programs went on, else why not. */
  memory: carriedMemorySchema.nullable().default(null),
});

export type SandboxRecord = z.infer<typeof sandboxRecordSchema>;

export const templateRecordSchema = z.object({
  templateId: z.string(),
  kind: z.enum(["built-in", "snapshot", "template"]),
  /** The owner; others see it when it is public. */
  team,
  /** `alias` or `namespace/alias`; null for an unnamed snapshot. */
  name: z.string().nullable(),
  isPublic: z.boolean(),
  createdAtMs: atMs,
  updatedAtMs: atMs,
  lastSpawnedAtMs: atMs.nullable(),
  spawnCount: z.number(),
});

export type TemplateRecord = z.infer<typeof templateRecordSchema>;

export const buildRecordSchema = z.object({
  buildId: z.string(),
  templateId: z.string(),
  /** The instance that makes it; matters only while it is `building`. */
  owner: z.string(),
  status: z.enum(["building", "ready"]),
  /** The sandbox that a snapshot was taken from. */
  sourceSandboxId: z.string().nullable(),
  createdAtMs: atMs,
  updatedAtMs: atMs,
  finishedAtMs: atMs.nullable(),
  limits: limitsSchema,
  /** Bottom first. Paths are relative to the home's folder of layers, or absolute outside it. */
  layers: z.array(z.object({ root: z.string(), usr: z.string().optional() })),
  /** What its sandboxes' disks begin with, upon the layers; a path as those are. Absent for empty ones. */
  disk: z.object({ image: z.string(), idBase: z.int().positive() }).optional(),
  /**
   * Of a snapshot: the folder of the memory of its programs, a path as those are, or why there is
   * none. Absent in those of older versions and of templates.
   */
  memory: z
    .union([z.object({ folder: z.string(), team }), z.object({ fault: z.string() })])
    .optional(),
  defaultUser: z.string(),
  defaultWorkdir: z.string(),
  /** Absent in records of older versions and of templates that need none. */
  setup: templateSetupSchema.optional(),
  /** Of what made it, by which a later build finds it. */
  cacheKey: z.string().optional(),
});

export type BuildRecord = z.infer<typeof buildRecordSchema>;

export const keyRecordSchema = z.object({
  keyId: z.string(),
  name: z.string(),
  /** Whose things it opens. */
  team,
  /** SHA-256 of the key in hex; the key itself is stored nowhere. */
  hash: z.string(),
  /** First two and last four characters after the prefix, for people to tell keys apart. */
  mask: z.string(),
  createdAtMs: atMs,
});

export type KeyRecord = z.infer<typeof keyRecordSchema>;

export const volumeRecordSchema = z.object({
  volumeId: z.string(),
  name: z.string(),
  team,
  createdAtMs: atMs,
  /** Of its disk; undefined for a volume that is a folder of the home. */
  sizeMb: z.number().optional(),
  /** Its content is not there yet; without this mark, content that is not there was lost. */
  isBeingMade: z.literal(true).optional(),
  /** The idempotency key that it was made with, and what tells its request from others. */
  creation: z.object({ key: z.string(), fingerprint: z.string() }).optional(),
});

export type VolumeRecord = z.infer<typeof volumeRecordSchema>;

export const creationRecordSchema = z.object({
  team,
  key: z.string(),
  fingerprint: z.string(),
  createdAtMs: atMs,
  /** What the reply said, without its tokens. */
  sandbox: sandboxRecordSchema
    .pick({
      sandboxId: true,
      templateId: true,
      alias: true,
      isSecured: true,
      isPrivate: true,
      allowsInternet: true,
      memory: true,
    })
    .extend({ isolation: z.enum(["gvisor", "userns-container", "container", "none"]) }),
});

/** A create that was asked for under a key, and the sandbox that it made. */
export type CreationRecord = z.infer<typeof creationRecordSchema>;

export interface CreationTable {
  /** Those in the future count as made now; what a clock that was behind took so has its time again. */
  rebase(nowMs: number, sinceMs: number): void;
  /** One that is not older. */
  get(wanted: Pick<CreationRecord, "team" | "key">, sinceMs: number): CreationRecord | undefined;
  /**
   * Whether it was added: not when there is one of this key. Older ones go, and those of the team
   * beyond the most that are kept.
   */
  add(record: CreationRecord, bounds: { readonly sinceMs: number; readonly most: number }): boolean;
}

export interface VolumeTable {
  /** @throws SandboxError already_exists when the team has a volume of that name. */
  add(record: VolumeRecord): void;
  setMade(volumeId: string): void;
  get(volumeId: string): VolumeRecord | undefined;
  getByName(team: string, name: string): VolumeRecord | undefined;
  all(): VolumeRecord[];
  remove(volumeId: string): void;
  /** In sandboxes of every owner. */
  countMounts(volumeId: string): number;
  /** The ids of those that sandboxes of any owner have. */
  mounted(): ReadonlySet<string>;
}

export interface SandboxTable {
  get(sandboxId: string): SandboxRecord | undefined;
  /** Inserts or replaces. */
  put(record: SandboxRecord): void;
  remove(sandboxId: string): void;
  ofOwner(owner: string): SandboxRecord[];
  /** Of every owner, as `countOfBuild`. */
  countOfTemplate(templateId: string): number;
  countOfBuild(buildId: string): number;
  owners(): string[];
}

export interface TemplateTable {
  get(templateId: string): TemplateRecord | undefined;
  getByName(name: string): TemplateRecord | undefined;
  /** Inserts or replaces. */
  put(record: TemplateRecord): void;
  /** Removes the template with its tags and builds, those under way included. */
  remove(templateId: string): void;
  all(): TemplateRecord[];
  /** Those that are no snapshots, of which there may be any number. */
  allBuilt(): TemplateRecord[];
}

export interface BuildTable {
  get(buildId: string): BuildRecord | undefined;
  /** Inserts or replaces. */
  put(record: BuildRecord): void;
  remove(buildId: string): void;
  /** Newest first, those still building included. */
  ofTemplate(templateId: string): BuildRecord[];
  readyOf(templateId: string): { newest: BuildRecord | undefined; amount: number };
  /** Those that are being made, by any owner. */
  unfinished(): BuildRecord[];
  all(): BuildRecord[];
  /** The next ones by their identifier, at most so many: all of them may be very many. */
  after(buildId: string, limit: number): BuildRecord[];
  /** Those of forks, of live builds and of cached steps: no client can refer to them. */
  withoutTemplate(): BuildRecord[];
  /** Whether one of them names a folder, as `layerFolders` has it. */
  hasFolder(folder: string): boolean;
  /** The newest one that is ready and has this key. */
  cached(cacheKey: string): BuildRecord | undefined;
  tag(tag: BuildTag): void;
  /** Whether there was such a tag. */
  untag(templateId: string, tag: string): boolean;
  tagged(templateId: string, tag: string): BuildRecord | undefined;
  tags(templateId: string): BuildTag[];
}

export interface KeyTable {
  /** @throws SandboxError already_exists when a key of that name is there. */
  add(record: KeyRecord): void;
  getByHash(hash: string): KeyRecord | undefined;
  all(): KeyRecord[];
  /** Of all keys, each once. */
  teams(): string[];
  /** Whether there was one. */
  remove(keyId: string): boolean;
}

/** Single values such as the fingerprint of the seed. */
export interface ValueTable {
  get(name: string): string | undefined;
  put(name: string, value: string): void;
}

export interface Store extends Disposable {
  readonly sandboxes: SandboxTable;
  readonly templates: TemplateTable;
  readonly snapshots: SnapshotTable;
  readonly builds: BuildTable;
  readonly templateBuilds: TemplateBuildTable;
  readonly buildLines: BuildLineTable;
  readonly volumes: VolumeTable;
  readonly creations: CreationTable;
  readonly keys: KeyTable;
  readonly logs: LogTable;
  readonly facts: ValueTable;
  /** All or nothing, durable when it returns. Does not nest. Logs and lines of builds are not part of it. */
  transaction<T>(work: () => T): T;
}
