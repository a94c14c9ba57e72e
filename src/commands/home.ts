/** The home of the service: made when it is missing, closed to everyone else. */

import { chmod, mkdir } from "node:fs/promises";
import { SandboxError, errorText } from "../common/errors.ts";

/**
 * Unix socket paths end at 107 bytes; what lies between the home and a container's socket takes
 * the rest.
 */
const MAX_HOME_BYTES = 45;

/** @throws SandboxError failed_precondition when it cannot be made or its path is too long. */
export async function openHome(path: string): Promise<void> {
  if (Buffer.byteLength(path) > MAX_HOME_BYTES) {
    throw new SandboxError("failed_precondition", `home ${path} is too long a path`, {
      hint: `choose one of at most ${MAX_HOME_BYTES} bytes with --home`,
    });
  }
  try {
    await mkdir(path, { recursive: true, mode: 0o700 });
    await chmod(path, 0o700);
  } catch (error) {
    throw new SandboxError("failed_precondition", `home ${path}: ${errorText(error)}`, {
      cause: error,
      hint: "run as root, or choose another folder with --home",
    });
  }
}
