/** Where a search looks, and where it does not. */

import type { Sandbox } from "../../client/envd.ts";
import type { Entry } from "../../client/filesystem.ts";

/** Directories that nearly always hold what others wrote. */
const SKIPPED = [".git", "node_modules"] as const;
/** Of the kernel: some of their files never end. */
const VIRTUAL: readonly string[] = ["/dev", "/proc", "/sys"];
/** Without any path grep would search its working directory. */
const NOTHING = "/dev/null";

/** The directories that a search passes over: none that its own path goes through. */
export function skippedBy(path: string): readonly string[] {
  const names = SKIPPED.filter((name) => !path.split("/").includes(name));
  return path === "/" ? [...names, ...VIRTUAL] : names;
}

/** grep excludes directories by their last name alone, so of the root the others are named. */
export async function grepPaths(request: {
  readonly sandbox: Sandbox;
  readonly path: string;
  readonly user: string | undefined;
  readonly deadline: AbortSignal;
}): Promise<readonly string[]> {
  const { sandbox, path, user, deadline } = request;
  if (path !== "/") return [path];
  try {
    const entries = await sandbox.filesystem.listDir(path, 1, { signal: deadline, user });
    const paths = entries.filter((entry) => isSearched(entry)).map((entry) => entry.path);
    return paths.length === 0 ? [NOTHING] : paths;
  } catch (error) {
    // The program is not started any more, and the reply says that the time is over.
    if (!deadline.aborted) throw error;
    return [NOTHING];
  }
}

/** A link has the type of its target, and grep follows one that is named. */
function isSearched({ type, path, symlinkTarget }: Entry): boolean {
  const isPlace = type === "directory" || type === "file";
  return isPlace && symlinkTarget === undefined && !VIRTUAL.includes(path);
}
