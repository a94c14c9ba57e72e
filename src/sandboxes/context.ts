/**
 * What operations on sandboxes work with, in parts: each operation names the parts that it needs.
 */

import type { Clock } from "../common/clock.ts";
import type { Logger } from "../common/log.ts";
import type { Container, ContainerLimits, Engine } from "../engine/engine.ts";
import type { Trust } from "../engine/templates/trust.ts";
import type { SandboxRecord, Store } from "../store/store.ts";
import type { Transition } from "../wire/messages.ts";
import type { CopyLedger } from "./disks/disk-space.ts";
import type { LogBook } from "./logs/log-book.ts";
import type { CleanupRetries } from "./retry-cleanup.ts";
import type { Run } from "./run.ts";
import type { Secrets } from "./secrets.ts";
import type { TeamQuota } from "./team-quota.ts";
import type { Templates } from "./templates/templates.ts";
import type { UsageMeter } from "./usage-meter.ts";
import type { VolumeDisks } from "./volumes/volume-disks.ts";

/** The modules and handles below the registry. */
export interface Services extends CleanupRetries {
  readonly engine: Engine;
  readonly store: Store;
  readonly clock: Clock;
  readonly log: Logger;
  readonly secrets: Secrets;
  /** The certificates of this machine, above the layers of every template. */
  readonly trust?: Trust | undefined;
  /** Variables of every process, below those that a create names. */
  readonly environment?: Readonly<Record<string, string>> | undefined;
  /** Fires when the registry closes. */
  readonly closing: AbortSignal;
}

/** On whose behalf an operation runs. */
export interface Tenant {
  /** Another team's sandboxes, templates and volumes are not found. */
  readonly team: string;
  /** The name under which rows and folders belong to this instance. */
  readonly owner: string;
  /** As the team sees them. */
  readonly templates: Templates;
}

/** Absolute paths. */
export interface Folders {
  /** What copies under way still take of their disk. */
  readonly copies: CopyLedger;
  /** Folder of the containers' folders. */
  readonly directory: string;
  /** Folder of template and snapshot layers. */
  readonly layersDirectory: string;
  /** Folder of the disks of snapshots that share blocks with those of sandboxes. */
  readonly disksDirectory: string;
  /** Folder of volumes that have no disk of their own. */
  readonly volumesDirectory: string;
  /** Absolute path. */
  readonly home: string;
  readonly volumeDisks: VolumeDisks;
}

/** What is recorded about sandboxes over time. */
export interface History {
  readonly logBook: LogBook;
  readonly meter: UsageMeter;
}

export interface Registry {
  readonly entries: Map<string, SandboxEntry>;
  /** Sandboxes that an earlier process left and that are not adopted yet, with the last fault. */
  readonly unadopted: Map<string, { readonly team: string; readonly fault: unknown }>;
  /** Tells that an expiry may now be nearer than before. */
  rescheduleExpiry(): void;
  /** When a request last looked up a running sandbox, by `clock.elapsed()`. */
  readonly lastUse: { atMs: number };
  /** Creates under way that have an idempotency key: team and key, and the fingerprint. */
  readonly activeCreates: Map<string, string>;
  /** Builds whose forks are being started: they are not released meanwhile. */
  readonly activeForkBuilds: Set<string>;
}

/** How many sandboxes there may be, and how large each one. */
export interface Limits {
  readonly limits: ContainerLimits;
  /** Sandboxes at once, the paused ones included: they keep their memory. */
  readonly maxSandboxes: number;
  /** Who may have one more, for all teams. */
  readonly quota: TeamQuota;
}

export type SandboxContext = Services & Tenant & Folders & History & Registry & Limits;

/** A pause at the timeout that failed, and when it is tried again. */
export interface FailedPause {
  /** The timeout at which it failed; a later one begins anew. */
  readonly endAtMs: number;
  readonly retries: number;
  /** On the monotonic clock. */
  readonly retryAtElapsedMs: number;
}

/** A sandbox of this instance. Its fields change only inside `changeState` and `endEntry`. */
export interface SandboxEntry {
  readonly container: Container;
  record: SandboxRecord;
  phase: "running" | "paused" | Transition;
  /** Settles, without a fault, when the change under way is over. */
  change: Promise<void> | undefined;
  /** Set once its end was decided; it is then gone for everyone but those who wait for the end. */
  ending: Promise<void> | undefined;
  run: Run | undefined;
  /** Reads the daemon's log; undefined until it was first needed. */
  follower: Disposable | undefined;
  /** What the pause under way will keep, for those who ask meanwhile. */
  pausing?: Pick<SandboxRecord, "hasMemory" | "pauseReason"> | undefined;
  /** Changed by the expiry alone. */
  failedPause?: FailedPause;
}
