/**
 * The relay of a container that runs, kept: where it died and the kernel inside did not, the next dial
 * starts it again. Without it the programs inside would go on out of reach.
 */

import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { signalAfter } from "../../common/late-signal.ts";
import { readStartTicks } from "../host/process-stat.ts";
import { readRecord } from "../oci/container-record.ts";
import { isRelayed, restartRelay, type RelayDial, type RelayOptions } from "./relay.ts";

const START_LIMIT_MS = 15_000;
/** One that dies again and again is started no more often than this. */
const INTERVAL_MS = 1_000;

interface KeptRelay extends Pick<RelayOptions, "directory" | "perlDirectory" | "cgroups"> {
  /** Where the daemons of the home lie. */
  readonly daemons: string;
}

export function keepRelay(kept: KeptRelay): RelayDial {
  let running: Promise<void> | undefined;
  let startedAtMs = -Infinity;

  async function revive(): Promise<void> {
    if ((await findDead(kept)) === undefined) return;
    const waitMs = startedAtMs + INTERVAL_MS - performance.now();
    if (waitMs > 0) await sleep(waitMs);
    // It may have been halted meanwhile: its next run starts a relay of its own.
    const options = await findDead(kept);
    if (options === undefined) return;
    startedAtMs = performance.now();
    await restartRelay(options, signalAfter(START_LIMIT_MS));
  }

  return async (dial) => {
    try {
      return await dial();
    } catch {
      // The second dial tells what is wrong.
      await (running ??= revive()
        .catch(() => undefined)
        .finally(() => (running = undefined)));
      return dial();
    }
  };
}

/** What to start; undefined where the relay lives, or where nothing runs that it could lead to. */
async function findDead({ daemons, ...kept }: KeptRelay): Promise<RelayOptions | undefined> {
  if (await isRelayed(kept.directory)) return undefined;
  const record = await readRecord(kept.directory);
  if (record?.secret === undefined || record.isHalted) return undefined;
  if (readStartTicks(record.pid) !== record.startTicks) return undefined;
  return { ...kept, id: record.id, secret: record.secret, daemon: join(daemons, record.daemon) };
}
