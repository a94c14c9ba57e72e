import type { ChildProcess } from "node:child_process";
import { once } from "node:events";

/** Kills a program that a test started and waits until it is gone, so that it touches no file any more. */
export async function endChild(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const ended = once(child, "exit");
  child.kill("SIGKILL");
  await ended;
}
