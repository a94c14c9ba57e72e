/** The home directory: how it is made and opened. */

import { chmod } from "node:fs/promises";
import { join } from "node:path";
import { errorText, SandboxError } from "../../common/errors.ts";
import { checkHome } from "../../common/home-folder.ts";
import { makeFolders } from "../../common/make-folders.ts";
import { isOlderStore, refuseNewerFile } from "../../store/file-version.ts";
import { settlePlace } from "./home-place.ts";

/**
 * Makes the home or opens it, with its database in the present form.
 * @throws SandboxError failed_precondition when it cannot be made, its path cannot be used, it is the
 * folder of something else, or a newer program has written its database; unavailable when
 * another process keeps it from being upgraded, canceled when the signal ends the wait for that.
 */
export async function openHome(path: string, signal?: AbortSignal): Promise<void> {
  checkHome(path);
  const database = join(path, "state.db");
  refuseNewerFile(database);
  const inHome = async (work: () => Promise<void>) => {
    try {
      await work();
    } catch (error) {
      throw refused(path, error);
    }
  };
  await inHome(async () => {
    makeFolders(path, 0o700);
    await chmod(path, 0o700);
  });
  // First: what a copy forgets is in its database, which would be opened with the event loop held.
  if (isOlderStore(database)) await upgrade(database, signal);
  await inHome(async () => {
    const note = await settlePlace(path);
    if (note !== undefined) process.stderr.write(`sandbox-mcp: ${note}\n`);
  });
}

function refused(path: string, error: unknown): SandboxError {
  return new SandboxError("failed_precondition", `home ${path}: ${errorText(error)}`, {
    cause: error,
    hint: `${process.getuid?.() === 0 ? "" : "run as root, or "}choose another directory with --home`,
  });
}

/** Rare: a stdio server answers its host before it loads what opens the database. */
async function upgrade(path: string, signal: AbortSignal | undefined): Promise<void> {
  const { upgradeStore } = await import("../../store/sqlite.ts");
  const onWait = () => {
    process.stderr.write(`sandbox-mcp: waiting for another process that writes to ${path}\n`);
  };
  await upgradeStore({ path, onWait, signal });
}
