/** A temporary folder of one test. */

import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";

export interface TestFolder extends AsyncDisposable {
  readonly path: string;
}

export async function openTestFolder(): Promise<TestFolder> {
  const path = await mkdtemp(join(tmpdir(), "smcp-"));
  return { path, [Symbol.asyncDispose]: () => rm(path, { recursive: true, force: true }) };
}
