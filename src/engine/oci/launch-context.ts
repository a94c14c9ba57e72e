/** What a start of a container needs to know of the machine, the engine and the container. */

import type { ContainerSpec, IsolationLevel } from "../engine.ts";
import type { AbilityTrial } from "../gvisor/abilities.ts";
import type { ImageKeys } from "../gvisor/image-seal.ts";
import type { LauncherStep } from "../host/launcher.ts";
import type { HostNetwork } from "../network/host-network.ts";
import type { Routers } from "../network/router.ts";
import type { BlankDisks } from "../storage/blank-disk.ts";
import type { CgroupHost } from "./cgroups.ts";
import type { ContainerRecord } from "./container-record.ts";
import type { Cgroup } from "./process-group.ts";
import type { SeccompCache } from "./seccomp.ts";
import type { SocketWatch } from "./socket-watch.ts";

export interface RuntimeChoice {
  /** Path of its program. */
  readonly runtime: string;
  /** What it was seen to give; less is refused. */
  readonly level: IsolationLevel;
  /** Whether containers were seen to be limited in cgroups that are delegated to this user. */
  readonly usesDelegation: boolean;
  /** What each call of gVisor's runtime begins with; undefined for one that shares the kernel. */
  readonly flags?: readonly string[] | undefined;
  /** Whether it was seen to save the memory of programs and to bring it back. */
  readonly carriesMemory?: boolean | undefined;
}

export interface LaunchContext extends RuntimeChoice {
  readonly cgroups: CgroupHost;
  /** The daemon's folder on the host. */
  readonly daemon: string;
  readonly perlDirectory: string;
  /** Undefined where containers have loopback alone. */
  readonly outside: HostNetwork | undefined;
  readonly routers: Routers;
  readonly filters: SeccompCache;
  readonly blanks: BlankDisks;
  /** Where images of disks are made; undefined for the folders of their containers. */
  readonly disksFolder: string | undefined;
  /** Of the images of memory. */
  readonly keys: ImageKeys;
  /** Whether a guardian reads deadlines. */
  readonly hasDeadlines: boolean;
  readonly sockets: SocketWatch;
  /** Set where a kernel of its own is tried. */
  readonly trial?: AbilityTrial | undefined;
}

/** What is on record of a container's memory while it starts on a disk that it had. */
export interface LaunchProgress {
  /** Called before programs can run. */
  begun(): Promise<void>;
  /** Called when programs run. */
  ran(): void;
  /** Called before what is left of the start is removed. */
  failed(error: unknown): Promise<void>;
}

/** A container that is being started, and what it has already. */
export interface Claim {
  readonly spec: ContainerSpec;
  readonly idBase: number;
  /** The first id of the files on its disk, where that began as the copy of another one. */
  readonly diskIdBase: number | undefined;
  readonly cgroup: Cgroup;
  readonly progress?: LaunchProgress | undefined;
}

/** How a halted container starts. */
export type Boot = Required<Pick<Claim, "spec" | "progress">>;

export interface Preparation {
  readonly claim: Claim;
  /** Resolves when there is a disk. */
  readonly disk: Promise<void>;
  /** What is to be done with it before the container's own steps. */
  readonly diskSteps: readonly LauncherStep[];
}

/** The parts of a launch that depend on the runtime, in their order. */
export interface Launch {
  /** All that the runtime needs. */
  prepare(): Promise<void>;
  /** Runs the runtime; the number of the container's first process on the host. */
  run(): Promise<number>;
  /** @throws SandboxError unavailable when the container is not what was asked for. */
  prove(pid: number): Promise<Pick<ContainerRecord, "level" | "secret">>;
  /** What needs a container on record. */
  connect(record: ContainerRecord): Promise<void>;
}
