/**
 * Where a folder of the host may be mounted in a container: the rules that a path alone decides.
 * That no link leads elsewhere is seen to by the launcher, which opens each component by itself.
 */

import { posix } from "node:path";
import { isCode, SandboxError } from "../../common/errors.ts";

/** In bytes; every component becomes a folder. */
const MAX_PATH_BYTES = 1_024;
/** The limit of the kernel's file systems. */
const MAX_NAME_BYTES = 255;

/**
 * The engine and the runtime mount or write into these, or programs of root start from them. On
 * each of them, and below it, nothing else is mounted.
 */
const RESERVED_PATTERN = /^\/(?:$|(?:bin|dev|etc|lib[^/]*|proc|run|sbin|sys|usr)(?:\/|$))/;

/** Control characters have no place in tables of mounts; half a surrogate pair has no bytes. */
const BAD_CHARACTER_PATTERN = /[\p{Cc}\p{Cs}]/u;

/** Tells the refusal of a path from other faults; see {@link isBindFault}. */
const BIND_FAULT_CODE = "ERR_BIND_PATH";

/** The spelling that is compared and mounted: no doubled slash, none at the end. */
export function cleanBindPath(path: string): string {
  return posix.normalize(path).replace(/(?<=.)\/$/, "");
}

/** Why nothing can be mounted at a path, whatever is mounted elsewhere; undefined when it can. */
export function findPathFault(path: string): string | undefined {
  if (path === "") return "path cannot be empty";
  if (Buffer.byteLength(path) > MAX_PATH_BYTES) {
    return `path must be at most ${MAX_PATH_BYTES} bytes`;
  }
  if (!path.startsWith("/")) return "path must be absolute";
  const names = path.split("/");
  if (names.some((name) => name === "." || name === "..")) {
    return "path must not contain any '.' or '..' components";
  }
  if (names.some((name) => Buffer.byteLength(name) > MAX_NAME_BYTES)) {
    return `path must not contain names of more than ${MAX_NAME_BYTES} bytes`;
  }
  if (BAD_CHARACTER_PATTERN.test(path)) return "path must not contain control characters";
  return RESERVED_PATTERN.test(cleanBindPath(path)) ? `path '${path}' is reserved` : undefined;
}

/** The first of the clean paths that lies on, in or above this clean one. */
export function findOverlap(path: string, others: Iterable<string>): string | undefined {
  for (const other of others) {
    if (path === other || path.startsWith(`${other}/`) || other.startsWith(`${path}/`)) {
      return other;
    }
  }
  return undefined;
}

/** The error of a path at which nothing can be mounted: the caller's fault, who named it. */
export function bindFault(message: string): SandboxError {
  const cause = Object.assign(new Error(message), { code: BIND_FAULT_CODE });
  return new SandboxError("invalid_argument", message, {
    cause,
    hint: "mount volumes at folders of their own, such as /data, without links on the way",
  });
}

/** Whether an error says that a path for a mount was refused. */
export function isBindFault(error: unknown): boolean {
  return error instanceof SandboxError && isCode(error.cause, BIND_FAULT_CODE);
}
