/**
 * The processes of a runtime that starts a container, by their arguments. crun leaves the process
 * group of its caller before it starts a container that it does not wait for, and is in no cgroup of
 * the container yet: nothing else finds it then.
 */

import { readdirSync } from "node:fs";
import { setTimeout as delay } from "node:timers/promises";
import { isCode, SandboxError } from "../../common/errors.ts";
import { readKernelFile } from "../../common/files.ts";
import { signalProcess } from "../host/run-program.ts";
import { PARENT } from "./delegation.ts";

const TIMEOUT_MS = 5_000;
const POLL_MS = 5;
/** A process may fork and end while the list is read, before its turn: its child is in the next list. */
const CLEAN_LISTS = 4;

/** Processes by their arguments, each of which ends with a zero byte, in the order of their numbers. */
export function findProcesses(isWanted: (words: string) => boolean): number[] {
  const numbers = readdirSync("/proc").filter((name) => /^\d+$/.test(name));
  const matches = (pid: string) => isWanted(readKernelFile(`/proc/${pid}/cmdline`) ?? "");
  return numbers.filter(matches).map(Number);
}

/**
 * Ends every start of a container in this folder that is still under way; `group` is the path of the
 * container in its cgroup trees, empty where it has none.
 * @throws SandboxError deadline_exceeded when a process does not end.
 */
export async function endRuntimeProcesses(directory: string, group = ""): Promise<void> {
  const words = `\0--bundle\0${directory}\0`;
  const endMs = performance.now() + TIMEOUT_MS;
  for (let clean = 0; ;) {
    const pids = findProcesses((line) => line.includes(words)).filter(
      (pid) => !isInOther(pid, group),
    );
    clean = pids.filter(endOwn).length === 0 ? clean + 1 : 0;
    if (clean === CLEAN_LISTS) return;
    if (performance.now() > endMs) {
      throw new SandboxError("deadline_exceeded", "a start that was broken off does not end");
    }
    await delay(POLL_MS);
  }
}

/** Whether it is a program of another container, which only imitates the arguments. */
function isInOther(pid: number, group: string): boolean {
  const groups = readKernelFile(`/proc/${pid}/cgroup`) ?? "";
  const inside = groups.split("\n").filter((line) => line.includes(`:/${PARENT}/`));
  return group !== "" && inside.some((line) => !`${line}/`.includes(`:${group}/`));
}

/** False for a process of another user, who only imitates the arguments. */
function endOwn(pid: number): boolean {
  try {
    signalProcess(pid, "SIGKILL");
    return true;
  } catch (error) {
    if (!isCode(error, "EPERM")) throw error;
    return false;
  }
}
