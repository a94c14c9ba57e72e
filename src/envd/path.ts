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
 * ones start at the home, an empty one is the working directory. What `..` means is not decided here.
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

/** A path below a directory, without `.`, empty names and a slash at the end; `..` stays as it is. */
export function joinPath(base: string, rest: string): string {
  const names = `${base}/${rest}`.split("/").filter((name) => name !== "" && name !== ".");
  return `/${names.join("/")}`;
}

/** The last component of a path; `/` for the root itself. */
export function baseName(path: string): string {
  return posix.basename(path) || "/";
}
