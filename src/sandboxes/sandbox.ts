/** The description of a sandbox, and the options of a create. */

import type { Container, ContainerLimits, IsolationLevel } from "../engine/engine.ts";
import type { SandboxRecord } from "../store/store.ts";
import { networkSchema, type Network } from "../wire/control.ts";
import type { CarriedMemory } from "./builds/memory.ts";
import { openEnvironment, tokensOf, type Secrets } from "./secrets.ts";
import type { MountRequest } from "./volumes/volume-rules.ts";

/** A sandbox at one moment. */
export interface Sandbox<Level = IsolationLevel> {
  readonly sandboxId: string;
  readonly templateId: string;
  readonly alias: string | undefined;
  readonly state: "running" | "paused";
  /** Of a paused one: whether its processes go on when it is resumed. */
  readonly hasMemory: boolean;
  /** Of a paused one with memory: whether that is on disk and no process of it is left. */
  readonly isOnDisk?: boolean | undefined;
  /** Of a paused one with memory: whether only a start from its files is possible. */
  readonly isDaemonUnresponsive: boolean;
  /** Of a paused one, where it is known. */
  readonly pauseReason: SandboxRecord["pauseReason"];
  /** Start of the present or last run. */
  readonly startedAtMs: number;
  /** Running: the moment of expiry. Paused: the moment of pausing. */
  readonly endAtMs: number;
  readonly limits: ContainerLimits;
  /** What the kernel told when its present run began. */
  readonly isolation: Level;
  /** Undefined for a sandbox whose daemon takes calls without a token. */
  readonly accessToken: string | undefined;
  /** Undefined where every port may be reached without a token. */
  readonly trafficToken: string | undefined;
  readonly pausesAtTimeout: boolean;
  readonly resumesOnTraffic: boolean;
  readonly allowsInternet: boolean | undefined;
  readonly network: Network | undefined;
  readonly metadata: Readonly<Record<string, string>> | undefined;
  readonly volumeMounts: readonly MountRequest[];
  /** What it cannot do, by words of its clients; undefined where it lacks nothing. */
  readonly missingAbilities?: readonly string[];
  /** Of one that began from a snapshot: whether programs went on, else why not. */
  readonly memory?: CarriedMemory | undefined;
}

/** What the reply of a start says, which a later one may have to say again. */
export type StartedSandbox = Pick<
  Sandbox,
  | "sandboxId"
  | "templateId"
  | "alias"
  | "isolation"
  | "accessToken"
  | "trafficToken"
  | "allowsInternet"
  | "memory"
>;

export interface CreateOptions {
  /** A template or snapshot, by name or identifier, with or without a tag. */
  readonly template: string;
  /** How long to wait for a template that is being built; undefined for as long as that takes. */
  readonly templateWaitMs?: number | undefined;
  /** 0 expires at once. */
  readonly timeoutSeconds: number;
  readonly isSecured: boolean;
  readonly pausesAtTimeout: boolean;
  /** Whether the pause at the timeout keeps memory. */
  readonly keepsMemory: boolean;
  readonly resumesOnTraffic: boolean;
  readonly allowsInternet: boolean | undefined;
  readonly network: Network | undefined;
  readonly metadata: Readonly<Record<string, string>> | undefined;
  readonly environment: Readonly<Record<string, string>>;
  readonly volumeMounts: readonly MountRequest[];
  /** Of a request that may be sent again: it then gets the sandbox that it made. */
  readonly once?: CreationKey | undefined;
  /** Names only: what they are told goes to the sandbox, not to us. */
  readonly mcpServers?: readonly string[];
  /** False: of a snapshot with memory the files alone. */
  readonly restoresMemory?: boolean | undefined;
  /** A kernel of its own; undefined as other sandboxes have. */
  readonly isolation?: "gvisor" | undefined;
}

export interface CreationKey {
  readonly key: string;
  /** Of the whole request. */
  readonly fingerprint: string;
}

/** The parts of an entry that its description needs. */
export interface DescribedEntry<Level = IsolationLevel> {
  readonly record: SandboxRecord;
  readonly container: { readonly level: Level } & Partial<
    Pick<Container, "isHalted" | "network" | "owesHalt">
  >;
}

export function toSandbox<Level = IsolationLevel>(
  { record, container }: DescribedEntry<Level>,
  secrets: Secrets,
): Sandbox<Level> {
  return {
    sandboxId: record.sandboxId,
    templateId: record.templateId,
    alias: record.alias ?? undefined,
    state: record.state === "paused" ? "paused" : "running",
    hasMemory: record.hasMemory,
    isOnDisk: record.hasMemory && container.isHalted === true && container.owesHalt !== true,
    isDaemonUnresponsive: record.isDaemonUnresponsive,
    pauseReason: record.pauseReason,
    startedAtMs: record.startedAtMs,
    endAtMs: record.endAtMs,
    limits: record.limits,
    isolation: container.level,
    ...tokensOf(record, secrets),
    pausesAtTimeout: record.pausesAtTimeout,
    resumesOnTraffic: record.resumesOnTraffic,
    // A later service may run without internet access for sandboxes, or with it again.
    allowsInternet: container.network === "loopback" ? false : (record.allowsInternet ?? undefined),
    network: record.network === null ? undefined : networkSchema.parse(record.network),
    metadata: record.metadata ?? undefined,
    volumeMounts: record.volumeMounts.map(({ name, path }) => ({ name, path })),
    memory: record.memory ?? undefined,
  };
}

/** How the sandbox of this record was created; its times and its kernel are left to the caller. */
export function optionsOf(
  record: SandboxRecord,
  secrets: Secrets,
): Omit<CreateOptions, "timeoutSeconds"> {
  return {
    template: record.templateId,
    isSecured: record.isSecured,
    pausesAtTimeout: record.pausesAtTimeout,
    keepsMemory: record.keepsMemory,
    resumesOnTraffic: record.resumesOnTraffic,
    allowsInternet: record.allowsInternet ?? undefined,
    network: record.network === null ? undefined : networkSchema.parse(record.network),
    metadata: record.metadata ?? undefined,
    volumeMounts: record.volumeMounts,
    mcpServers: record.mcpServers,
    environment: openEnvironment(secrets, record.sealedEnvironment),
  };
}
