/**
 * What became of a container that was about to go on from its saved memory when the process that
 * started it died. Its kernel finishes a restore that it was told of, so programs may run.
 */

import { rm } from "node:fs/promises";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { readIfThere } from "../../common/files.ts";
import { askDaemon } from "../network/ask-daemon.ts";
import { dialControlSocket, SOCKET_NAMES } from "../network/container-sockets.ts";
import { readStartTicks, type ContainerRecord } from "../oci/container-record.ts";
import type { Cgroup } from "../oci/process-group.ts";
import { readSentryLevel } from "../oci/verify-container.ts";
import { readNote } from "./memory-image.ts";
import { isRelayed, ORDERS, startRelay, type RelayOptions } from "./relay.ts";

/** Reads a gigabyte from a slow disk; a kernel that was not told of any restore waits for ever. */
const LOAD_LIMIT_MS = 60_000;
const ASK_LIMIT_MS = 2_000;
const POLL_MS = 100;

export interface RestoredPlace extends Omit<RelayOptions, "secret"> {
  /** Path of the runtime. */
  readonly runtime: string;
  readonly cgroup: Cgroup;
  readonly record: ContainerRecord;
  /** Where its memory was saved. */
  readonly memory: string;
}

/**
 * The record of the run where programs go on. `unused`: none did, so the memory is as it was; `unknown`:
 * they may have, and then it is no longer that of the files.
 */
export async function findRestored(
  place: RestoredPlace,
): Promise<ContainerRecord | "unused" | "unknown"> {
  const { directory, record, runtime } = place;
  // The runtime writes it when there is a kernel, before that is told anything.
  const text = await readIfThere(join(directory, "runtime/pid"));
  if (text === undefined || text === "") return "unused";
  const pid = Number(text);
  const startTicks = readStartTicks(pid);
  if (startTicks === undefined) return "unknown";
  try {
    const level = readSentryLevel({ pid, idBase: record.idBase }, runtime);
    const secret = (await readNote(place.memory))?.secret;
    if (level !== "gvisor" || secret === undefined) return "unknown";
    await awaitPrograms({ ...place, secret });
    const { memory: _memory, unsyncedSince: _since, ...known } = record;
    return { ...known, pid, startTicks, level, secret, isHalted: false };
  } catch {
    return "unknown";
  }
}

/** @throws SandboxError unavailable, deadline_exceeded when no daemon answers. */
async function awaitPrograms(place: RestoredPlace & { readonly secret: string }): Promise<void> {
  const { directory, secret } = place;
  if (!(await isRelayed(directory))) {
    for (const name of [...Object.values(SOCKET_NAMES), ORDERS]) {
      await rm(join(directory, name), { force: true });
    }
    await startRelay(place, AbortSignal.timeout(LOAD_LIMIT_MS));
  }
  const endMs = performance.now() + LOAD_LIMIT_MS;
  for (;;) {
    try {
      const dial = async (signal: AbortSignal) => dialControlSocket({ directory, secret }, signal);
      await askDaemon(dial, ASK_LIMIT_MS);
      return;
    } catch (error) {
      if (performance.now() > endMs || !(await place.cgroup.isPopulated())) throw error;
      await sleep(POLL_MS);
    }
  }
}
