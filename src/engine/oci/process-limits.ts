/**
 * The limits of single processes (setrlimit(2)) that every program of a container starts with. The
 * launcher sets them before the runtime: those of the shell or unit that started the service would
 * hold inside otherwise, such as one of processor time, and a right to real-time priority, which no
 * cgroup limits.
 */

import { readFileSync } from "node:fs";
import { hasRight, isRootless } from "../../common/privilege.ts";
import type { EngineCheck } from "../engine.ts";
import type { LauncherStep } from "../host/launcher.ts";

const NO_LIMIT = "unlimited";
const MIB = 1024 * 1024;

interface ProcessLimit {
  /** By the kernel's number. */
  readonly resource: string;
  readonly soft: string;
  readonly hard: string;
  /** Below it programs inside fail that run elsewhere: what `doctor` then says. */
  readonly reported?: {
    /** The name in `/proc/self/limits`. */
    readonly row: string;
    readonly least: number;
    readonly remedy: string;
  };
}

function unlimited(resource: string, row: string, flag: string): ProcessLimit {
  const remedy = `ulimit ${flag} ${NO_LIMIT}`;
  return {
    resource,
    soft: NO_LIMIT,
    hard: NO_LIMIT,
    reported: { row, least: Number.POSITIVE_INFINITY, remedy },
  };
}

/** The defaults of Linux; cgroups limit the container as a whole. */
const LIMITS: readonly ProcessLimit[] = [
  unlimited("0", "cpu time", "-t"),
  unlimited("1", "file size", "-f"),
  unlimited("2", "data size", "-d"),
  {
    resource: "3",
    soft: String(8 * MIB),
    hard: NO_LIMIT,
    reported: { row: "stack size", least: 8 * MIB, remedy: "ulimit -s 8192" },
  },
  // With a limit of 0 the kernel still starts the program that takes core dumps, where it is told of one.
  { resource: "4", soft: "1", hard: "1" },
  // An ordinary user always has one of processes, by which that of the container is lowered.
  { resource: "6", soft: NO_LIMIT, hard: NO_LIMIT },
  { resource: "7", soft: "65536", hard: "65536" },
  { resource: "8", soft: String(8 * MIB), hard: String(8 * MIB) },
  unlimited("9", "address space", "-v"),
  // Queued signals, bytes of message queues.
  { resource: "11", soft: "65536", hard: "65536" },
  { resource: "12", soft: "819200", hard: "819200" },
  // The best nice value, and priorities of real time.
  { resource: "13", soft: "0", hard: "0" },
  { resource: "14", soft: "0", hard: "0" },
];

/**
 * The launcher's steps. The runtime inherits the limits: one that sets them on others would need the
 * right to raise limits, which not every root has. They come before the user namespace is made,
 * which keeps some of its maker's for all that it holds.
 */
export function limitSteps(): LauncherStep[] {
  const limits = LIMITS.map(({ resource, soft, hard }) => ["limit", resource, soft, hard] as const);
  return [["normal"], ...limits];
}

/** The right to raise limits beyond the hard ones, by the kernel's number. */
const SYS_RESOURCE = 24;

/** Limits of this process that hold in sandboxes, because a service may not raise them. */
export function checkProcessLimits(
  limits = readFileSync("/proc/self/limits", "utf8"),
  mayRaise = mayRaiseLimits(),
): EngineCheck {
  const name = "process limits";
  const low = mayRaise ? [] : LIMITS.flatMap((limit) => findLow(limit, limits));
  if (low.length === 0) return { name, outcome: "ok", detail: "none from this program" };
  const detail = `in sandboxes too: ${low.map(({ said }) => said).join(", ")}`;
  const remedy = `start the service without them: ${low.map((one) => one.remedy).join(", ")}`;
  return { name, outcome: "warning", detail, remedy };
}

function findLow({ reported }: ProcessLimit, limits: string): { said: string; remedy: string }[] {
  if (reported === undefined) return [];
  const { row, least, remedy } = reported;
  const [, hard = NO_LIMIT, unit = ""] =
    new RegExp(`^Max ${row} +\\S+ +(\\S+) +(\\S+)`, "m").exec(limits) ?? [];
  if (hard === NO_LIMIT || Number(hard) >= least) return [];
  return [{ said: `${row} at most ${hard} ${unit}`, remedy }];
}

function mayRaiseLimits(): boolean {
  return !isRootless() && hasRight(readFileSync("/proc/self/status", "utf8"), SYS_RESOURCE);
}
