/** How long the builds of built-in templates took on this machine, one file of the home for each. */

import { join } from "node:path";
import { readIfThere, writeWhole } from "../../common/files.ts";

const PATTERN = /^[1-9][0-9]{0,9}\n$/;

/** Does the build and records its time, which only a build that succeeds has. */
export async function recordBuildTime(
  home: string,
  template: string,
  build: () => Promise<unknown>,
): Promise<void> {
  const startedAtMs = performance.now();
  await build();
  const elapsedMs = Math.max(1, Math.round(performance.now() - startedAtMs));
  await writeWhole(pathOf(home, template), `${elapsedMs}\n`);
}

/** Milliseconds of the newest build of the template in this home; undefined without one. */
export async function readBuildTime(home: string, template: string): Promise<number | undefined> {
  const text = await readIfThere(pathOf(home, template));
  return text !== undefined && PATTERN.test(text) ? Number(text) : undefined;
}

function pathOf(home: string, template: string): string {
  return join(home, `build-time-${template}`);
}
