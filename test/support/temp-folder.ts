/** A temporary folder that is removed at the end. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface TempFolder extends AsyncDisposable {
  readonly path: string;
}

/** Makes a new folder, mode 0700. */
export async function makeTempFolder(): Promise<TempFolder> {
  const path = await mkdtemp(join(tmpdir(), "smcp-t-"));
  return {
    path,
    [Symbol.asyncDispose]: async () => rm(path, { recursive: true, force: true }),
  };
}
