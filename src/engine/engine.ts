/**
 * The border of the engine: isolated containers, made, frozen and ended. It knows layers, limits
 * and ports; what a template or a sandbox is, others decide.
 */

import type { Socket } from "node:net";
import type { TellFailure } from "../common/clean-up.ts";

/** How strongly a container is separated from the host, weakest first. */
export const ISOLATION_LEVELS = ["none", "container", "userns-container", "gvisor"] as const;

export type IsolationLevel = (typeof ISOLATION_LEVELS)[number];

/**
 * One read-only step of a root file system. Files carry the ids that the container sees; the
 * engine maps them into the container's own range when it mounts them.
 */
export interface Layer {
  /** Absolute host path of the tree for `/`. */
  readonly root: string;
  /** Absolute host path of the tree for `/usr`, where `/usr` is stacked separately. */
  readonly usr?: string;
}

/** A disk as it was at one moment: an image that nothing mounts or writes to. */
export interface DiskCopy {
  /** Absolute host path of the image, which has a folder of its own. */
  readonly image: string;
  /** Of root's files on it; those of its other users have the ids above. */
  readonly idBase: number;
}

export interface ContainerLimits {
  readonly memoryMb: number;
  readonly cpus: number;
  readonly diskMb: number;
  readonly pids: number;
}

/** A host folder that several containers may share; on the host its files carry plain ids. */
export interface Bind {
  /** Absolute host path. */
  readonly source: string;
  /** Absolute path inside; folders that are missing are made. */
  readonly path: string;
}

/** What a container uses, at one moment. */
export interface Usage {
  /** Processor time of all its processes since its start, in milliseconds. */
  readonly cpuMs: number;
  /** Without the page cache of files on disks, which is told apart; files in memory are here. */
  readonly memoryBytes: number;
  readonly cacheBytes: number;
  readonly diskBytes: number;
  /** The whole disk, used or not. */
  readonly diskTotalBytes: number;
  /**
   * Processes that the kernel ended for lack of memory, since the start or the last boot; undefined
   * where the kernel does not count them for this container.
   */
  readonly outOfMemoryKills?: number | undefined;
}

/** Networks as `192.0.2.0/24` or an address alone; IPv4 only, there is no IPv6 in a container. */
export interface EgressRules {
  /** Reached even where `deny` names it. */
  readonly allow: readonly string[];
  /** Not reached; what no list names is reached. */
  readonly deny: readonly string[];
  /**
   * Hosts by name, as `example.com`, `*.example.com` or `*`, reached even where `deny` names their
   * addresses: requests of plain HTTP on port 80 by their Host, TLS on port 443 by its server name.
   * With any of them, these names alone are answered.
   */
  readonly domains: readonly string[];
}

/**
 * What a container may reach outside. The host, other containers and every private range are out
 * of reach under any rule. `none`: there is no link, so not one packet leaves.
 */
export type Egress = "none" | EgressRules;

export interface ContainerSpec {
  /** `[a-z0-9]{1,64}`, unique on this machine; names the container and its cgroup. */
  readonly id: string;
  /** A host folder of this container alone, mode 0700; the engine creates and removes it. */
  readonly directory: string;
  /** Bottom first; the container's own writable layer lies above the last one. */
  readonly layers: readonly Layer[];
  /** What the disk begins with, upon the layers on which it was written; undefined for an empty one. */
  readonly disk?: DiskCopy | undefined;
  /** Host folders that are seen inside, writable, with the container's ids. */
  readonly binds?: readonly Bind[];
  readonly limits: ContainerLimits;
  readonly hostname: string;
  /** A UUID that programs read as the boot id of the kernel; undefined shows the machine's. */
  readonly bootId?: string;
  readonly egress: Egress;
  /** A kernel of its own, whatever other containers of the engine have; undefined as they have. */
  readonly isolation?: "gvisor" | undefined;
  /**
   * Absolute host path of the memory of programs, which go on; layers, or disk, are those of the same
   * moment. At a boot only `savedMemory` of the container counts: without it programs begin anew.
   */
  readonly memory?: string | undefined;
}

export interface ContainerExit {
  /** Why it ended, for a log line: `init ended`, `killed`, `out of memory`. */
  readonly reason: string;
}

/** A disk image at one moment. */
export interface DiskGrowth {
  /** Taken by files, also by data that is in memory only. */
  readonly usedBytes: number;
  /** What the image takes on the host's disk. */
  readonly hostBytes: number;
}

/** A disk image that takes space on the host's disk as it is written to. */
export interface GrowingDisk {
  /** Undefined while it is mounted nowhere. */
  readGrowth(): DiskGrowth | undefined;
  /** Lets files grow by so many bytes (default: all of the disk), then ENOSPC; whether the kernel took it. */
  limitGrowth(bytes: number | undefined): boolean;
  /** Whether such a limit holds, of this process or an earlier one: files may grow by less than is free. */
  isLimited(): boolean;
  /** Whether a write to what it has already may take space of the host's disk. */
  sharesBlocks(): boolean;
  /** On: returns free blocks to the host's disk, now and whenever a file is removed. */
  returnFreedBlocks(isOn: boolean): Promise<void>;
}

export interface Container extends AsyncDisposable {
  readonly id: string;
  /** Resolves once the container ended, however; a halt is no end. */
  readonly exit: Promise<ContainerExit>;
  /** Whether this engine proved the separation, and how strong it is. */
  readonly level: IsolationLevel;
  /**
   * What rules of egress mean here: `routed`, they hold; `loopback`, this machine gives no internet access
   * and nothing is reached; `host`, no isolation at all and every rule is ignored.
   */
  readonly network: "routed" | "loopback" | "host";
  /**
   * Whether rules of addresses, and the internet access, hold when the process that set them is gone. Else
   * nothing is reached from then on, until another process sets them anew.
   */
  readonly hasLastingEgress: boolean;
  /**
   * Replaces the rules of egress in one moment, for connections that exist too. A halted container
   * takes its rules when it boots.
   * @throws SandboxError invalid_argument for what is no IPv4 network or name, unavailable for
   * names where there is no name server; the old rules stay then.
   */
  setEgress(egress: Egress): Promise<void>;
  /**
   * A byte stream to a TCP port inside the container.
   * @throws SandboxError invalid_argument for no port number, unavailable when nothing listens there or
   * the container is gone.
   */
  dial(port: number, signal: AbortSignal): Promise<Socket>;
  /** A byte stream to the daemon's public socket, on which it serves clients. */
  dialPublic(signal: AbortSignal): Promise<Socket>;
  /** A byte stream to the daemon's control socket, which no client ever reaches. */
  dialControl(signal: AbortSignal): Promise<Socket>;
  /** Whether the daemon is known to answer without a new connection; undefined where one takes no longer. */
  readonly isAnswering?: (() => Promise<boolean>) | undefined;
  /** Freezes every process; memory is kept. Idempotent. After a fault programs go on. */
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** Whether it was halted: it has a disk and no processes. */
  readonly isHalted: boolean;
  /**
   * Ends every process and keeps what was written, durably. Idempotent. After a fault `isHalted`
   * says whether it was begun, and then has to be gone through with.
   */
  halt(): Promise<void>;
  /** Whether a halt was begun that is still to be gone through with. */
  readonly owesHalt: boolean;
  /** Where the memory of a halted container is whose programs can go on. */
  readonly savedMemory: string | undefined;
  /** Why `savedMemory` does not come back here, found without a start; absent where none is saved. */
  findRestoreFault?(): Promise<string | undefined>;
  /**
   * Halts a paused container and keeps the memory of its programs beside its disk, durably. After a
   * fault it is paused as before, or `isHalted`, and then `halt` goes through with it.
   * @throws SandboxError unavailable when the memory was not saved, unimplemented where none can be.
   */
  haltWithMemory(): Promise<void>;
  /**
   * Starts a halted container anew on its disk; layers and limits are those of its creation. With
   * `spec.memory`, its programs go on; without, their memory is removed.
   * @throws SandboxError unavailable when it does not start; it stays halted then. Its memory stays
   * too, unless programs may have run since: then it is no longer that of the files.
   */
  boot(spec: ContainerSpec, signal: AbortSignal): Promise<void>;
  /** @throws SandboxError unavailable when it does not run. */
  readUsage(): Promise<Usage>;
  /** Undefined where files take space of the host's disk as they are written. */
  readonly disk?: GrowingDisk | undefined;
  /** Why no copy of it has the memory of its programs, as words after "because"; undefined: it may. */
  readonly memoryFault: string | undefined;
  /**
   * Copies the writable layer to `directory` (made by this call) as a layer of its own and syncs
   * it to disk. The container is frozen meanwhile; a paused one stays paused. With `memory`, a
   * folder that this call makes, the memory of all programs at that moment is there when the layer
   * is; the host's connections to the container are cut then.
   */
  snapshot(directory: string, memory?: string): Promise<Layer>;
  /**
   * Copies the disk to `directory` (made by this call) by sharing its blocks, durably; the container
   * is frozen for milliseconds, with `memory` as in `snapshot` for as long as that takes. Undefined
   * where the file system shares none; absent where no engine does.
   */
  copyDisk?(directory: string, memory?: string): Promise<DiskCopy | undefined>;
  /**
   * What the guardian does with the container when no service is there any more, until another
   * call; at once, so that it can go before what is answered. Ignored where none needs it.
   */
  setDeadline?(deadline: Deadline): void;
  /** Ends every process and removes every trace on the host. Idempotent. */
  [Symbol.asyncDispose](): Promise<void>;
}

/** When a container without a service ends or is frozen. */
export interface Deadline {
  /** Unix milliseconds. */
  readonly atMs: number;
  readonly action: "end" | "freeze";
}

export interface GuardOptions {
  /** Folder of one instance; the folders of its containers are in its folder `s`. */
  readonly directory: string;
  /**
   * `kill`: when this process ends, however, what is left of its containers ends too. `leave`: each
   * goes on until its deadline; one that was given none ends.
   */
  readonly rule: "kill" | "leave";
}

/** Its end is that of the service: it settles when nothing is left to guard, or leaves it guarded. */
export type Guard = AsyncDisposable;

/** One thing that was looked at, for `doctor`. */
export interface EngineCheck {
  readonly name: string;
  readonly outcome: "ok" | "warning" | "missing";
  readonly detail: string;
  /** The command that fixes it. */
  readonly remedy?: string;
}

export interface EngineReport {
  /** The runtime that passed, with its version: `crun 1.8.1`; undefined when none did. */
  readonly runtime: string | undefined;
  readonly level: IsolationLevel;
  readonly isUsable: boolean;
  readonly checks: readonly EngineCheck[];
}

export interface Engine {
  /**
   * What this machine can do, proved by a tiny container. A success is remembered until the
   * machine changes; `fresh` proves it again.
   */
  probe(freshness?: "cached" | "fresh"): Promise<EngineReport>;
  /**
   * Starts a container whose daemon accepts connections on its control socket.
   * @throws SandboxError unavailable when the runtime fails, canceled; nothing is left behind then.
   */
  create(spec: ContainerSpec, signal: AbortSignal): Promise<Container>;
  /**
   * Has containers that are made or adopted from now on ended by a process of its own when this
   * process was killed. Absent where containers end with this process anyway.
   */
  guard?(options: GuardOptions): Promise<Guard>;
  /** The container that an earlier process made in this folder, if it still lives or was halted. */
  adopt(id: string, directory: string): Promise<Container | undefined>;
  /**
   * Makes one layer in `directory` (made by this call) of all but the `kept` lowest; upon those it
   * shows the same tree. Durable when it resolves; a fault leaves nothing behind.
   */
  squash(
    layers: readonly Layer[],
    kept: number,
    place: { readonly directory: string; readonly signal: AbortSignal },
  ): Promise<Layer>;
  /** Ends and removes whatever container, mount or cgroup belongs to this folder. */
  remove(id: string, directory: string): Promise<void>;
  /**
   * Removes what this engine keeps for itself in the home and needs no more; `directories` are the
   * folders of all containers that there are. Returns what was removed, by name; what fails is told.
   */
  prune(directories: readonly string[], tell: TellFailure): Promise<string[]>;
}
