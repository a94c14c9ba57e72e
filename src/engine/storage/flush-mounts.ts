/** What was written to file systems that are mounted, brought to the host's disk. */

import { runProgram } from "../host/run-program.ts";

/** For each file system; a slow disk with much to write takes minutes. */
const TIMEOUT_MS = 10 * 60_000;
/** Prints each that failed, and what was said of it. */
const SYNC_EACH =
  'for mount; do said=$(sync -f "$mount" 2>&1) || printf "%s\\0%s\\0" "$mount" "$said"; done';
const TRIM_EACH =
  'for mount; do sync -f "$mount" && fstrim "$mount" || failed=1; done; exit ${failed:-0}';

/** Returns those that failed, each with the reason; all are tried. */
export async function syncMounts(mounts: readonly string[]): Promise<Map<string, string>> {
  const said = (await runEach(SYNC_EACH, mounts)).split("\0");
  const failed = new Map<string, string>();
  for (let index = 0; index + 1 < said.length; index += 2) {
    failed.set(said[index] ?? "", said[index + 1] ?? "");
  }
  return failed;
}

/** Also gives the host's disk back what is free in their images. @throws SandboxError unavailable; all are tried */
export async function trimMounts(mounts: readonly string[]): Promise<void> {
  await runEach(TRIM_EACH, mounts);
}

/** One shell for all: on a busy machine the start of a program takes longer than its work. */
async function runEach(script: string, mounts: readonly string[]): Promise<string> {
  if (mounts.length === 0) return "";
  const timeoutMs = TIMEOUT_MS * mounts.length;
  return runProgram(["sh", "-c", script, "sh", ...mounts], { timeoutMs });
}
