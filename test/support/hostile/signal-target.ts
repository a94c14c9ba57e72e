/** A sandbox whose daemon gets signals, and what must be the same after each of them. */

import { readdir, readFile, readlink } from "node:fs/promises";
import { constants } from "node:os";
import { expect } from "vitest";
import { sandboxSchema } from "../../../src/wire/control.ts";
import type { Random } from "../random.ts";
import { IS_WHOLE_RUN } from "../runtimes.ts";
import type { AttackRange } from "./attack-range.ts";

/** Each number that the kernel knows. */
export const SIGNALS: readonly number[] = Array.from({ length: 64 }, (_, index) => index + 1);
const { SIGUSR1, SIGUSR2, SIGQUIT, SIGABRT, SIGSEGV, SIGSTOP, SIGKILL } = constants.signals;
/** Those by which programs dump, report or stop, each time; all others on one runtime of a whole run. */
const TELLING = [SIGUSR1, SIGUSR2, SIGQUIT, SIGABRT, SIGSEGV, SIGSTOP, SIGKILL];
const RANDOM_ONES = IS_WHOLE_RUN ? 12 : 3;
/** A daemon that was ended starts anew, and its service tells it again within 2 s. */
const RETURN_LIMIT_MS = 30_000;
/** How long what was stopped stays so, in seconds. */
const STOPPED_S = 0.05;
/** The pid inside of the daemon, whose parent is process 1 with a command line that names it too. */
export const FIND_DAEMON = String.raw`pgrep -P 1 -f '[s]tart\.cjs'`;
/** Listening sockets, as the kernel shows them. */
const LISTENING = `awk '$4 == "0A" { print $2 }' /proc/net/tcp /proc/net/tcp6 | sort`;
/** Where `/tmp` is a mount of its own, it is looked through by its name. */
const NEW_FILES = String.raw`find / /tmp -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run/e2b \) -prune -o -type f -newer /opt/mark -print`;

export interface SignalTarget {
  /** What a command prints, as root unless a user is named. */
  run(command: string, user?: string): Promise<string>;
  /** Resolves when the daemon answers, after whatever was done to it. */
  serves(): Promise<void>;
  /** Has a program inside send a signal that long after the call; what stopped goes on shortly after. */
  sendInside(signal: number, pids: string, afterS?: number): Promise<void>;
  /** Resolves when whoever was to send one has done so. */
  sent(): Promise<void>;
  /** The ports on which anybody inside listens. */
  listening(): Promise<string>;
  /** Fails if there is another port, a new file or a token that can be read. */
  expectNothingNew(ports: string): Promise<void>;
}

/** Opens the sandbox of a range as one. */
export async function openSignalTarget(range: AttackRange): Promise<SignalTarget> {
  const { sandbox } = range;
  const run: SignalTarget["run"] = async (command, user = "root") =>
    (await sandbox.commands.run(command, { user })).stdout;
  await run("touch /opt/mark");
  return {
    run,
    serves: async () =>
      expect
        .poll(async () => run("echo serves").catch(String), {
          timeout: RETURN_LIMIT_MS,
          interval: 20,
        })
        .toBe("serves\n"),
    async sendInside(signal, pids, afterS = 0) {
      // The shell that sends it does not need the daemon.
      const script = `sleep ${afterS}; for pid in $(${pids}); do kill -${signal} $pid; done; sleep ${STOPPED_S}; for pid in $(${pids}); do kill -CONT $pid; done`;
      const words = `setsid sh -c ${quote(script)} signal-sender >/dev/null 2>&1 &`;
      await run(afterS === 0 ? `${words} sleep 0.1` : words).catch(() => undefined);
    },
    sent: async () =>
      expect
        .poll(async () => run(`pgrep -f '[s]ignal-sender' || echo none`).catch(String), {
          timeout: RETURN_LIMIT_MS,
          interval: 20,
        })
        .toBe("none\n"),
    listening: async () => run(LISTENING),
    async expectNothingNew(ports) {
      expect(await run(LISTENING)).toBe(ports);
      const token = await tokenOf(range);
      expect(token).toMatch(/^[0-9a-f]{32,}$/);
      expect((await run(NEW_FILES)).split("\n").filter((path) => !isExpected(path))).toEqual([]);
      const search = `grep -rlsF ${token} /tmp /var /run /opt /root /home /dev/shm || true`;
      expect(await run(search)).toBe("");
    },
  };
}

/** The signals to try: all, or those that tell most and some others. */
export function chooseSignals(random: Random, takesAll: boolean): readonly number[] {
  if (takesAll) return SIGNALS;
  const rest = SIGNALS.filter((signal) => !TELLING.includes(signal));
  return [...TELLING, ...Array.from({ length: RANDOM_ONES }, () => random.pick(rest))];
}

/** The pids on this machine of the daemons in a PID namespace, which is named as its link reads. */
export async function daemonsIn(namespace: string): Promise<readonly number[]> {
  const pids = (await readdir("/proc")).filter((name) => /^\d+$/.test(name));
  const found = await Promise.all(
    pids.map(async (pid) => {
      const link = await readlink(`/proc/${pid}/ns/pid`).catch(() => "");
      if (link !== namespace) return false;
      const command = await readFile(`/proc/${pid}/cmdline`, "latin1").catch(() => "");
      return command.includes("/run/sandbox-mcp/start.cjs") && !command.includes("/sh\0");
    }),
  );
  return pids.filter((_pid, index) => found[index]).map(Number);
}

function quote(text: string): string {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`;
}

/** Caches that shells and terminals keep by themselves. */
function isExpected(path: string): boolean {
  return path === "" || /^\/(?:var\/log|var\/lib\/systemd|opt\/(?:attacks|planted))/.test(path);
}

async function tokenOf({ serve, sandbox: { sandboxId } }: AttackRange): Promise<string> {
  const reply = await fetch(`${serve.url}/sandboxes/${sandboxId}`, {
    headers: { "x-api-key": serve.apiKey },
  });
  return String(sandboxSchema.parse(await reply.json()).envdAccessToken);
}
