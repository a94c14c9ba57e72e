/**
 * The file that tells the guardian when a container ends or is frozen: that moment by the wall clock,
 * and in a second line in seconds since the start of the machine, which no setting of a clock moves.
 * A third line, which the guardian does not read, names that start.
 */

import { renameSync, writeFileSync } from "node:fs";
import { uptime } from "node:os";
import { join } from "node:path";
import { toSandboxError } from "../../common/errors.ts";
import { draftOf, listFolder, readIfThere } from "../../common/files.ts";
import type { Deadline } from "../engine.ts";
import { readBoot } from "./container-record.ts";

export const DEADLINE_NAME = "expiry";

const MS_PER_S = 1_000;

/** @throws SandboxError resource_exhausted on a full disk; the deadline before stays then. */
export function writeDeadline(directory: string, { atMs, action }: Deadline): void {
  const path = join(directory, DEADLINE_NAME);
  const upAtS = Math.max(0, Math.ceil(uptime() + (atMs - Date.now()) / MS_PER_S));
  const text = `${Math.ceil(atMs / MS_PER_S)} ${action}\n${upAtS}\n${readBoot()}\n`;
  try {
    writeFileSync(draftOf(path), text, { mode: 0o600 });
    renameSync(draftOf(path), path);
  } catch (error) {
    throw toSandboxError(error, "deadline");
  }
}

/** Whether a container below this folder has a time to live, left to the guardian, that is not over. */
export async function hasTimeLeft(directory: string): Promise<boolean> {
  for (const name of await listFolder(directory)) {
    const text = await readIfThere(join(directory, name, DEADLINE_NAME));
    if (text !== undefined && isAhead(text)) return true;
  }
  return false;
}

/** By the clock of the guardian, as long as the machine is that which the file is of. */
function isAhead(text: string): boolean {
  const [wall = "", up = "", boot = ""] = text.split("\n");
  // An older service named no start, and not every kernel tells it.
  if (boot === "" || readBoot() === "") return Number.parseInt(wall, 10) * MS_PER_S > Date.now();
  // No container outlives its machine.
  return boot === readBoot() && Number(up) > uptime();
}
