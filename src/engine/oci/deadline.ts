/**
 * The file that tells the guardian when a container ends or is frozen: that moment by the wall clock,
 * and in a second line in seconds since the start of the machine, which no setting of a clock moves.
 */

import { renameSync, writeFileSync } from "node:fs";
import { uptime } from "node:os";
import { join } from "node:path";
import { toSandboxError } from "../../common/errors.ts";
import { draftOf, listFolder, readIfThere } from "../../common/files.ts";
import type { Deadline } from "../engine.ts";

export const DEADLINE_NAME = "expiry";

const MS_PER_S = 1_000;

/** @throws SandboxError resource_exhausted on a full disk; the deadline before stays then. */
export function writeDeadline(directory: string, { atMs, action }: Deadline): void {
  const path = join(directory, DEADLINE_NAME);
  const upAtS = Math.max(0, Math.ceil(uptime() + (atMs - Date.now()) / MS_PER_S));
  const text = `${Math.ceil(atMs / MS_PER_S)} ${action}\n${upAtS}\n`;
  try {
    writeFileSync(draftOf(path), text, { mode: 0o600 });
    renameSync(draftOf(path), path);
  } catch (error) {
    throw toSandboxError(error, "deadline");
  }
}

/** Whether a container below this folder has a time to live, left to the guardian, that is not over. */
export async function hasTimeLeft(directory: string, nowMs: number): Promise<boolean> {
  for (const name of await listFolder(directory)) {
    const text = await readIfThere(join(directory, name, DEADLINE_NAME));
    if (text !== undefined && Number.parseInt(text, 10) * MS_PER_S > nowMs) return true;
  }
  return false;
}
