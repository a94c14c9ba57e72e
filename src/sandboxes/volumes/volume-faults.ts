/** Faults of the file system in a volume, as the client of its content is told them. */

import { causeCode, diskFullError, type ErrorCode, SandboxError } from "../../common/errors.ts";

const FAULTS: Readonly<Record<string, readonly [ErrorCode, string]>> = {
  ENOENT: ["not_found", "path does not exist"],
  // A file on the way to a path: below it nothing exists.
  ENOTDIR: ["not_found", "path does not exist"],
  EEXIST: ["already_exists", "path exists"],
  EISDIR: ["invalid_argument", "path is a directory"],
  ELOOP: ["invalid_argument", "path became a link"],
  ENAMETOOLONG: ["invalid_argument", "a name of the path is too long"],
  ENXIO: ["invalid_argument", "path is not a regular file"],
  EACCES: ["permission_denied", "permission denied"],
  EPERM: ["permission_denied", "operation not permitted"],
  // A program in a sandbox has a lease of the file.
  EAGAIN: ["failed_precondition", "path is in use"],
  EBUSY: ["failed_precondition", "path is in use"],
  // A journal that the host's disk refused stops; the next mount goes on with it.
  EROFS: ["unavailable", "volume takes no changes until no sandbox has it mounted"],
  ENOTEMPTY: ["failed_precondition", "path was written to meanwhile"],
};

/** Texts of the system name paths of the host: only its codes are told. */
export function toVolumeFault(error: unknown): unknown {
  if (error instanceof SandboxError) return error;
  const code = causeCode(error) ?? "";
  if (code === "ENOSPC" || code === "EDQUOT") return diskFullError("volume", error);
  const fault = FAULTS[code];
  return fault === undefined ? error : new SandboxError(fault[0], fault[1], { cause: error });
}
