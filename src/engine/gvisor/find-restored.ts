/**
 * What became of a container that was about to go on from its saved memory when the process that
 * started it died. Its kernel finishes a restore that it was told of, so programs may run.
 */

import { join } from "node:path";
import { addAbortSignal } from "node:stream";
import { setTimeout as sleep } from "node:timers/promises";
import { SandboxError } from "../../common/errors.ts";
import { readIfThere } from "../../common/files.ts";
import { tryParseJson } from "../../common/json.ts";
import { signalAfter } from "../../common/late-signal.ts";
import { z } from "../../common/schema.ts";
import { readStartTicks } from "../host/process-stat.ts";
import { askDaemon } from "../network/ask-daemon.ts";
import { dialDaemon, dialSocket } from "../network/container-sockets.ts";
import type { ContainerRecord } from "../oci/container-record.ts";
import type { Cgroup } from "../oci/process-group.ts";
import { readSentryLevel } from "../oci/verify-container.ts";
import { STATE } from "./checkpoint.ts";
import { hasNote, readImageSecret } from "./memory-image.ts";
import { isRelayed, restartRelay, type RelayOptions } from "./relay.ts";

/** Reads a gigabyte from a slow disk. */
const LOAD_LIMIT_MS = 60_000;
/** A kernel that was not told of any restore waits for ever: it has no processes and does nothing. */
const LOOK_MS = 1_000;
const IDLE_LOOKS = 3;
const IDLE_CPU_MS = 50;
const MAX_ANSWER_BYTES = 1024 * 1024;
const ASK_LIMIT_MS = 2_000;
const POLL_MS = 100;

export interface RestoredPlace extends Omit<RelayOptions, "secret"> {
  readonly runtime: string;
  readonly cgroup: Cgroup;
  readonly record: ContainerRecord;
  /** Where its memory was saved. */
  readonly memory: string;
  readonly home: string;
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
  if (text === undefined || text === "") {
    // A process that gave the memory up had begun to remove it.
    return (await hasNote(place.memory)) ? "unused" : "unknown";
  }
  const pid = Number(text);
  const startTicks = readStartTicks(pid);
  if (startTicks === undefined) return "unknown";
  try {
    const level = readSentryLevel({ pid, idBase: record.idBase }, runtime);
    const secret = await readImageSecret(place.memory, place.home);
    if (level !== "gvisor" || secret === undefined) return "unknown";
    if (!(await awaitRestore(place))) return "unused";
    await awaitPrograms({ ...place, secret });
    const { memory: _memory, unsyncedSince: _since, ...known } = record;
    return { ...known, pid, startTicks, level, secret, isHalted: false };
  } catch {
    return "unknown";
  }
}

/** Whether there are programs; false when no restore was begun. */
async function awaitRestore({ cgroup, directory, record }: RestoredPlace): Promise<boolean> {
  const endMs = performance.now() + LOAD_LIMIT_MS;
  let idle = 0;
  let before = -Infinity;
  while (idle < IDLE_LOOKS) {
    const count = await countProcesses(directory, record.id).catch(() => undefined);
    if (count !== undefined && count > 0) return true;
    const { cpuMs } = await cgroup.readUsage();
    idle = count === 0 && cpuMs - before < IDLE_CPU_MS ? idle + 1 : 0;
    before = cpuMs;
    if (performance.now() > endMs) throw new SandboxError("deadline_exceeded", "no restore ended");
    await sleep(LOOK_MS);
  }
  return false;
}

/** How many processes the kernel inside has. */
async function countProcesses(directory: string, id: string): Promise<number> {
  const signal = signalAfter(ASK_LIMIT_MS);
  const socket = await dialSocket(join(directory, "runtime", STATE, `runsc-${id}.sock`), signal);
  try {
    socket.write(JSON.stringify({ method: "containerManager.Processes", arg: id }));
    let text = "";
    for await (const chunk of addAbortSignal(signal, socket)) {
      text += String(chunk);
      const answer = parseProcesses(text);
      if (answer !== undefined) return answer;
      if (text.length > MAX_ANSWER_BYTES) break;
    }
    throw new SandboxError("unavailable", "the kernel did not answer");
  } finally {
    socket.destroy();
  }
}

const processesSchema = z.object({
  success: z.literal(true),
  result: z.array(z.unknown()).nullable(),
});

/** Undefined as long as a part is missing. */
function parseProcesses(text: string): number | undefined {
  const { data } = processesSchema.safeParse(tryParseJson(text));
  return data === undefined ? undefined : (data.result?.length ?? 0);
}

/** @throws SandboxError unavailable, deadline_exceeded when no daemon answers. */
async function awaitPrograms(place: RestoredPlace & { readonly secret: string }): Promise<void> {
  const { directory, secret } = place;
  if (!(await isRelayed(directory))) await restartRelay(place, signalAfter(LOAD_LIMIT_MS));
  const endMs = performance.now() + LOAD_LIMIT_MS;
  for (;;) {
    try {
      const dial = async (signal: AbortSignal) =>
        dialDaemon({ directory, secret }, "control", signal);
      await askDaemon(dial, ASK_LIMIT_MS);
      return;
    } catch (error) {
      if (performance.now() > endMs || !(await place.cgroup.isPopulated())) throw error;
      await sleep(POLL_MS);
    }
  }
}
