/** Where programs of the host are looked for. At once: a start that waits for a list needs no more. */

import { accessSync, constants, statSync } from "node:fs";
import { join } from "node:path";
import { isCode } from "../../common/errors.ts";

/** The only variable that a program of the host gets from us. */
export const PROGRAM_ENVIRONMENT = {
  PATH: "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
} as const;

/** Finds a program by name in the path that our tools get, or checks a path. */
export function findProgram(name: string): string | undefined {
  const folders = name.includes("/") ? [""] : PROGRAM_ENVIRONMENT.PATH.split(":");
  for (const folder of folders) {
    const path = folder === "" ? name : join(folder, name);
    if (isProgram(path)) return path;
  }
  return undefined;
}

function isProgram(path: string): boolean {
  try {
    accessSync(path, constants.X_OK);
    return statSync(path).isFile();
  } catch (error) {
    if (isCode(error, "ENOENT", "EACCES", "ENOTDIR", "ELOOP", "ENAMETOOLONG")) return false;
    throw error;
  }
}
