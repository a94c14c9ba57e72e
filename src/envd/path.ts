/** How a path from a request becomes a path of the sandbox. */

import { posix } from "node:path";
import { SandboxError } from "../common/errors.ts";

/** Whose home counts, and where an empty path leads. */
export interface PathScope {
  readonly userName: string;
  readonly home: string;
  /** Where an empty path leads instead of the home; undefined when none is configured. */
  readonly workdir: string | undefined;
}

/**
 * A requested path as an absolute one. Absolute paths stay exactly as they were given; relative
 * ones start at the home, an empty one is the working directory.
 * @throws SandboxError invalid_argument for `~name`, and for a NUL byte, which no path can hold.
 */
export function resolvePath(path: string, scope: PathScope): string {
  if (path.includes("\0")) throw new SandboxError("invalid_argument", "path contains a NUL byte");
  if (path === "") return scope.workdir ?? scope.home;
  if (path.startsWith("~")) return expandHome(path, scope);
  if (path.startsWith("/")) return path;
  return joinPath(scope.home, path);
}

function expandHome(path: string, scope: PathScope): string {
  const next = path.charAt(1);
  if (next !== "" && next !== "/" && next !== "\\") {
    throw new SandboxError(
      "invalid_argument",
      `failed to expand path '${path}' for user '${scope.userName}': cannot expand user-specific home dir`,
    );
  }
  return joinPath(scope.home, path.slice(1));
}

/** Two paths joined and cleaned, without a slash at the end. */
export function joinPath(base: string, rest: string): string {
  const joined = posix.join(base, rest);
  return joined.length > 1 && joined.endsWith("/") ? joined.slice(0, -1) : joined;
}

/** The last component of a path; `/` for the root itself. */
export function baseName(path: string): string {
  return posix.basename(path) || "/";
}

/** The folder that must exist before a path can: for one that ends in a slash, it is itself one. */
export function parentPath(path: string): string {
  const clean = joinPath(path, "");
  return path.endsWith("/") ? clean : posix.dirname(clean);
}
