/** Programs that the daemon carries in its own folder, so that it needs none of the template's. */

import { existsSync } from "node:fs";
import { join } from "node:path";

/** A program with the arguments that must come before its own. */
export type Command = readonly [string, ...string[]];

/** What a program finds others by until its environment says otherwise. */
export const DEFAULT_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/** A carried program, run by the carried loader; undefined where the folder has none. */
export function findBundledProgram(directory: string, name: string): Command | undefined {
  const loader = join(directory, "loader");
  const program = join(directory, name);
  if (!existsSync(loader) || !existsSync(program)) return undefined;
  return [loader, "--library-path", join(directory, "lib"), program];
}
