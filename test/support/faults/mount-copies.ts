/**
 * Other programs of the machine that make mount namespaces: each has a copy of every mount that is there
 * at that moment, and no unmount of ours reaches it.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readlink } from "node:fs/promises";
import { expect } from "vitest";
import { endChild } from "../end-child.ts";

const UNSHARE = ["unshare", "--mount", "--propagation", "private"] as const;
/** Each copies while the ones before it still have their copies. */
const OFTEN = `while :; do ${UNSHARE.join(" ")} sleep 0.3 & sleep 0.1; done`;

/** A copy of what is mounted now, kept until it is disposed by a program that works in a folder of it. */
export async function copyMounts(cwd = "/"): Promise<AsyncDisposable> {
  const [program, ...words] = UNSHARE;
  const holder = spawn(program, [...words, "sleep", "600"], { cwd, stdio: "ignore" });
  const namespace = () => readlink(`/proc/${holder.pid}/ns/mnt`);
  await expect.poll(namespace).not.toBe(await readlink("/proc/self/ns/mnt"));
  return {
    [Symbol.asyncDispose]: () => endChild(holder),
  };
}

/** New copies all the time, each kept for a moment. */
export function copyMountsOften(): AsyncDisposable {
  const holder = spawn("bash", ["-c", OFTEN], { stdio: "ignore", detached: true });
  return {
    async [Symbol.asyncDispose]() {
      const ended = once(holder, "exit");
      process.kill(-Number(holder.pid), "SIGKILL");
      await ended;
    },
  };
}
