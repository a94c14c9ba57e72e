/** The spawner of processes, started before a client waits for it. */

import { errorText } from "../../common/errors.ts";
import type { Daemon } from "../daemon.ts";

/** Never fails: the first process tries again, and its caller is told why. */
export async function prepareSpawner({ spawner, log }: Daemon): Promise<void> {
  try {
    await spawner.prepare();
  } catch (error) {
    log.write("warn", "no spawner started", { logger: "envd", error: errorText(error) });
  }
}
