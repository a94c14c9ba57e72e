/** Pipes for the first processes, made before a client waits for them. */

import { errorText } from "../../common/errors.ts";
import type { Daemon } from "../daemon.ts";

/** Never fails: the first process tries again, and its caller is told why. */
export async function preparePipes({ pipes, log }: Daemon): Promise<void> {
  try {
    await pipes.prepare();
  } catch (error) {
    log.write("warn", "no pipes made", { logger: "envd", error: errorText(error) });
  }
}
