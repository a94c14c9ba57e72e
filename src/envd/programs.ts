/**
 * Stops every program of a Pod, and cuts the clients of the daemon: then nothing changes the files.
 * Only for a daemon that has a process namespace of its own.
 */

import { readdir, readFile } from "node:fs/promises";
import { setTimeout as delay } from "node:timers/promises";
import { isCode, SandboxError } from "../common/errors.ts";

const EVERYONE = -1;
const SHELL_PID = 1;
/** Of `/proc/PID/task/TID/stat`, after the name: stopped, traced, dead. */
const STILL = /^(?:T|t|Z|X)/;
const POLL_MS = 10;
/** A program stops once its present system call is over. */
const STOP_MS = 10_000;

export interface Programs {
  /** From the order to stop until the order to go on. */
  readonly areStopped: boolean;
  /**
   * @throws SandboxError unavailable when one does not stop in time: all go on then. So does an order
   * after which another one came, to stop or to go on: that one counts.
   */
  stop(): Promise<void>;
  goOn(): Promise<void>;
}

/** What a test has in the place of processes. */
export interface Signals {
  send(signal: "SIGSTOP" | "SIGCONT"): void;
  /** Whether a process could still change something. */
  isAnyoneActive(): Promise<boolean>;
}

/** `cut` ends the connections of clients; the listener refuses new ones while `areStopped`. */
export function createPrograms(cut: () => void, signals: Signals = PROCESSES): Programs {
  /** The order to stop that counts; undefined while programs may run. */
  let present: symbol | undefined;

  async function goOn(): Promise<void> {
    signals.send("SIGCONT");
    present = undefined;
  }

  return {
    get areStopped() {
      return present !== undefined;
    },
    goOn,
    async stop() {
      const own = Symbol("stop");
      present = own;
      cut();
      const endMs = performance.now() + STOP_MS;
      for (;;) {
        // Repeated: a program that was starting another one may have missed the first.
        signals.send("SIGSTOP");
        const isActive = await signals.isAnyoneActive();
        if (isActive) await delay(POLL_MS);
        // A host that gave this order up has said what counts now.
        if (present !== own) throw new SandboxError("unavailable", "another order came meanwhile");
        if (!isActive) return;
        if (performance.now() > endMs) break;
      }
      await goOn();
      throw new SandboxError("unavailable", "a program of the sandbox does not stop");
    },
  };
}

const PROCESSES: Signals = {
  send(signal) {
    try {
      // Linux leaves out the sender and the first process.
      process.kill(EVERYONE, signal);
    } catch (error) {
      if (!isCode(error, "ESRCH")) throw error;
    }
  },
  async isAnyoneActive() {
    const names = await readdir("/proc");
    const others = names.filter(
      (name) => /^[0-9]+$/.test(name) && ![SHELL_PID, process.pid].includes(Number(name)),
    );
    const states = await Promise.all(others.map(async (name) => readStates(name)));
    return states.flat().some((state) => !STILL.test(state));
  },
};

/** Of all threads: the first one may have ended, or stand while another one is in a system call. */
async function readStates(pid: string): Promise<string[]> {
  const threads = await readdir(`/proc/${pid}/task`).catch(() => []);
  const texts = threads.map(async (thread) =>
    readFile(`/proc/${pid}/task/${thread}/stat`, "utf8").catch(() => undefined),
  );
  // What has ended meanwhile changes nothing.
  return (await Promise.all(texts)).flatMap((text) => text?.slice(text.lastIndexOf(")") + 2) ?? []);
}
