/**
 * Ends containers whose sockets take the memory of the machine. What waits in a socket of netlink or
 * ping, what UDP was given and has not sent, and what a connection of TCP received before a program
 * accepts it, the kernel counts for no cgroup, whatever its version: one program could take all memory,
 * or all that TCP has of it. Nothing is ended while the machine has enough of both.
 */

import { readFileSync } from "node:fs";
import { readKernelFile } from "../../common/files.ts";
import { OPTION_MEMORY } from "./option-memory.ts";

/** A program that takes memory as fast as a processor copies is found before the last quarter is gone. */
const LOOK_MS = 250;
/** Of one look, so that many containers on a full machine cost little; the next one goes on. */
const MAX_LOOK_MS = 10;
const SCARCE_SHARE = 0.25;
/** No program that works lets so much wait. */
const MAX_HELD_BYTES = 64 * 1024 * 1024;
/** What one socket takes at most for its options; more than 16,384 are too many then. */
const SOCKET_BYTES = OPTION_MEMORY.bytes;

/** Which sums of a table count: what a socket received, and what it has to send. */
const TABLES = [
  ["netlink", netlinkBytes],
  ["icmp", (line: string) => queuedBytes(line, { isReceivedCounted: true })],
  ["icmp6", (line: string) => queuedBytes(line, { isReceivedCounted: true })],
  ["udp", (line: string) => queuedBytes(line, { isReceivedCounted: false })],
  ["udp6", (line: string) => queuedBytes(line, { isReceivedCounted: false })],
] as const;
const CONNECTION_TABLES = ["tcp", "tcp6"] as const;
/** ESTABLISHED and CLOSE_WAIT, as the tables have them. */
const OPEN_STATES: ReadonlySet<string> = new Set(["01", "08"]);

export interface SocketWatch {
  /** `pid` returns a process of the container; undefined when it is gone. */
  add(watched: WatchedSockets): Disposable;
}

interface WatchedSockets {
  readonly pid: () => number | undefined;
  /** Called at each look at which the container has too much; it must not throw. */
  readonly end: () => void;
}

/** `freeShare` tells how much of the machine's memory is free, from 0 to 1. */
export function createSocketWatch(freeShare: () => number = readFreeShare): SocketWatch {
  const all = new Set<WatchedSockets>();
  let timer: NodeJS.Timeout | undefined;

  function lookAtAll(): void {
    if (freeShare() >= SCARCE_SHARE) return;
    const endMs = performance.now() + MAX_LOOK_MS;
    const turn = [...all];
    for (const watched of turn) {
      if (performance.now() > endMs) return;
      // To the end: the others come before it at the next look.
      if (!all.delete(watched)) continue;
      all.add(watched);
      const { pid, end } = watched;
      const first = pid();
      if (first !== undefined && heldBySockets(`/proc/${first}/net`) > MAX_HELD_BYTES) end();
    }
  }

  function look(): void {
    try {
      lookAtAll();
    } catch {
      // Without descriptors nothing of the kernel can be read; the next look may find some.
    }
  }

  return {
    add(watched) {
      all.add(watched);
      timer ??= setInterval(look, LOOK_MS).unref();
      return {
        [Symbol.dispose]() {
          all.delete(watched);
          if (all.size > 0) return;
          clearInterval(timer);
          timer = undefined;
        },
      };
    },
  };
}

/** Of memory, or of what TCP may take before it slows down, whichever is scarcer. */
function readFreeShare(): number {
  const used = Number(/^TCP: .* mem (\d+)$/m.exec(readKernelFile("/proc/net/sockstat") ?? "")?.[1]);
  const slow = Number((readKernelFile("/proc/sys/net/ipv4/tcp_mem") ?? "").split(/\s+/)[1]);
  const share = 1 - used / slow;
  return Math.min(readFreeMemory(), Number.isFinite(share) ? share : 1);
}

/** 1 where the kernel does not tell. */
function readFreeMemory(): number {
  const text = readKernelFile("/proc/meminfo") ?? "";
  const of = (name: string) => Number(new RegExp(`^${name}:\\s+(\\d+) kB$`, "m").exec(text)?.[1]);
  const share = of("MemAvailable") / of("MemTotal");
  return Number.isFinite(share) ? share : 1;
}

/** Bytes that the sockets of a network namespace hold uncounted; `folder` is `/proc/PID/net`. */
export function heldBySockets(folder: string): number {
  const stat = readTable(`${folder}/sockstat`);
  const used = /^sockets: used (\d+)$/m.exec(stat)?.[1];
  // A connection that waits to be accepted is no socket yet.
  const connections =
    Number(/^TCP: inuse (\d+)/m.exec(stat)?.[1] ?? 0) +
    Number(/^TCP6: inuse (\d+)/m.exec(readTable(`${folder}/sockstat6`))?.[1] ?? 0);
  const count = Math.max(Number(used ?? 0), connections);
  const least = count * SOCKET_BYTES;
  // Tables as long as that take a while to read, and those of few sockets cannot have too much.
  if (least > MAX_HELD_BYTES) return least;
  if (used !== undefined && count * readLargestSocket() <= MAX_HELD_BYTES) return least;
  const tables = [...TABLES, ...CONNECTION_TABLES.map((name) => [name, waitingBytes] as const)];
  return tables.reduce((sum, [name, bytesOf]) => {
    const [, ...lines] = readTable(`${folder}/${name}`).split("\n");
    return lines.reduce((held, line) => held + bytesOf(line), sum);
  }, least);
}

/** Of a connection that no program has accepted: it has no inode. */
function waitingBytes(line: string): number {
  const words = line.trim().split(/\s+/);
  const isWaiting = words[9] === "0" && OPEN_STATES.has(words[3] ?? "");
  return isWaiting ? Number.parseInt(words[4]?.split(":")[1] ?? "0", 16) : 0;
}

/** The kernel doubles what a program asks for, and lets one more message wait. */
function readLargestSocket(): number {
  const most = ["rmem_max", "wmem_max"].map((name) =>
    Number(readKernelFile(`/proc/sys/net/core/${name}`) ?? Infinity),
  );
  return 3 * Math.max(...most);
}

/** Empty where the process has ended, or the kernel has no such sockets. */
function readTable(path: string): string {
  try {
    return readFileSync(path, "latin1");
  } catch {
    return "";
  }
}

/** `sk Eth Pid Groups Rmem …`, in decimal. */
function netlinkBytes(line: string): number {
  return Number(line.trim().split(/\s+/)[4] ?? 0) || 0;
}

/** `sl local_address rem_address st tx_queue:rx_queue …`, in hexadecimal. */
function queuedBytes(
  line: string,
  { isReceivedCounted }: { readonly isReceivedCounted: boolean },
): number {
  const [, sent = "0", received = "0"] = /\s([0-9A-F]{8}):([0-9A-F]{8})\s/.exec(line) ?? [];
  return Number.parseInt(sent, 16) + (isReceivedCounted ? Number.parseInt(received, 16) : 0);
}
