/** What the kernel says about the processes of a container, read from the host. */

import { readdir, readFile, readlink } from "node:fs/promises";
import { join } from "node:path";
import { openLimits } from "../engine/container-limits.ts";

const NAMESPACES = ["pid", "mnt", "net", "ipc", "uts", "cgroup", "user"] as const;

export interface ProcessPosture {
  /** By the host's number. */
  readonly pid: number;
  /** Real, effective, saved and of files, as the host sees them. */
  readonly users: readonly number[];
  readonly uidMap: string;
  readonly gidMap: string;
  readonly bounding: string;
  readonly ambient: string;
  readonly effective: string;
  readonly noNewPrivileges: string;
  /** Mode and number of filters, of every thread. */
  readonly filters: readonly string[];
  readonly namespaces: Readonly<Record<string, string>>;
  readonly coreLimit: string;
  readonly oomScore: number;
  /** Kinds of what it has open, by descriptor. */
  readonly descriptors: Readonly<Record<string, string>>;
  readonly command: string;
}

/** One process, by the host's number. */
async function readPosture(pid: number): Promise<ProcessPosture> {
  const read = async (name: string) => readFile(`/proc/${pid}/${name}`, "utf8");
  const status = fieldsOf(await read("status"));
  const namespaces = await Promise.all(
    NAMESPACES.map(async (kind) => [kind, await readlink(`/proc/${pid}/ns/${kind}`)]),
  );
  return {
    pid,
    users: (status["Uid"] ?? "").split(/\s+/).map(Number),
    uidMap: (await read("uid_map")).trim().replaceAll(/\s+/g, " "),
    gidMap: (await read("gid_map")).trim().replaceAll(/\s+/g, " "),
    bounding: status["CapBnd"] ?? "",
    ambient: status["CapAmb"] ?? "",
    effective: status["CapEff"] ?? "",
    noNewPrivileges: status["NoNewPrivs"] ?? "",
    filters: await readFilters(pid),
    namespaces: Object.fromEntries(namespaces),
    coreLimit: /^Max core file size\s+(\S+\s+\S+)/m.exec(await read("limits"))?.[1] ?? "",
    oomScore: Number(await read("oom_score_adj")),
    descriptors: await readDescriptors(pid),
    command: (await read("cmdline")).replaceAll("\0", " ").trim(),
  };
}

/** All processes of a container's cgroup. */
export async function posturesOf(id: string): Promise<ProcessPosture[]> {
  const text = await (await openLimits(id)).read("pids", "cgroup.procs");
  const pids = text.split("\n").filter(Boolean).map(Number);
  const read = pids.map(async (pid) => readPosture(pid).catch(() => undefined));
  return (await Promise.all(read)).filter((one) => one !== undefined);
}

async function readFilters(pid: number): Promise<string[]> {
  const threads = await readdir(`/proc/${pid}/task`);
  const filters = await Promise.all(
    threads.map(async (thread) => {
      const text = await readFile(`/proc/${pid}/task/${thread}/status`, "utf8").catch(() => "");
      const { Seccomp: mode, Seccomp_filters: count } = fieldsOf(text);
      return text === "" ? [] : [`${mode} ${count}`];
    }),
  );
  return [...new Set(filters.flat())];
}

function fieldsOf(text: string): Readonly<Record<string, string>> {
  const lines = [...text.matchAll(/^(\w+):\s*(.*)$/gm)];
  return Object.fromEntries(lines.map(([, name = "", value = ""]) => [name, value]));
}

async function readDescriptors(pid: number): Promise<Record<string, string>> {
  const folder = `/proc/${pid}/fd`;
  const numbers = await readdir(folder);
  const targets = await Promise.all(
    numbers.map(async (number) => [number, await readlink(join(folder, number)).catch(() => "")]),
  );
  return Object.fromEntries(targets.map(([number, target = ""]) => [number, kindOf(target)]));
}

function kindOf(target: string): string {
  if (/^\/dev\/shm\/envd-[\w-]+\/(?:in|out|err) \(deleted\)$/.test(target)) return "carrier";
  return /^(socket|pipe):\[/.exec(target)?.[1] ?? target;
}

/** The mask of capabilities as the kernel prints it. */
export function capabilityMask(names: readonly string[]): string {
  const bits = names.map((name) => 1n << BigInt(CAPABILITIES.indexOf(name.slice("CAP_".length))));
  return bits
    .reduce((mask, bit) => mask | bit, 0n)
    .toString(16)
    .padStart(16, "0");
}

/** In the order of the kernel's numbers. */
const CAPABILITIES =
  `CHOWN DAC_OVERRIDE DAC_READ_SEARCH FOWNER FSETID KILL SETGID SETUID SETPCAP LINUX_IMMUTABLE
  NET_BIND_SERVICE NET_BROADCAST NET_ADMIN NET_RAW IPC_LOCK IPC_OWNER SYS_MODULE SYS_RAWIO
  SYS_CHROOT SYS_PTRACE SYS_PACCT SYS_ADMIN SYS_BOOT SYS_NICE SYS_RESOURCE SYS_TIME
  SYS_TTY_CONFIG MKNOD LEASE AUDIT_WRITE AUDIT_CONTROL SETFCAP MAC_OVERRIDE MAC_ADMIN SYSLOG WAKE_ALARM
  BLOCK_SUSPEND AUDIT_READ PERFMON BPF CHECKPOINT_RESTORE`.split(/\s+/);
