/** System errors in the words that clients of this wire expect. */

import { causeCode, errorText } from "../common/errors.ts";

/** What the wire calls each errno; taken from its published messages. */
const TEXTS: Readonly<Record<string, string>> = {
  E2BIG: "argument list too long",
  EACCES: "permission denied",
  EAGAIN: "resource temporarily unavailable",
  EBADF: "bad file descriptor",
  EBUSY: "device or resource busy",
  EDQUOT: "disk quota exceeded",
  EEXIST: "file exists",
  EFBIG: "file too large",
  EINVAL: "invalid argument",
  EIO: "input/output error",
  EISDIR: "is a directory",
  ELOOP: "too many levels of symbolic links",
  EMFILE: "too many open files",
  ENAMETOOLONG: "file name too long",
  ENFILE: "too many open files in system",
  ENODEV: "no such device",
  ENOENT: "no such file or directory",
  ENOEXEC: "exec format error",
  ENOMEM: "cannot allocate memory",
  ENOSPC: "no space left on device",
  ENOTDIR: "not a directory",
  ENOTEMPTY: "directory not empty",
  ENOTSUP: "operation not supported",
  ENXIO: "no such device or address",
  EOPNOTSUPP: "operation not supported",
  EPERM: "operation not permitted",
  EPIPE: "broken pipe",
  EROFS: "read-only file system",
  ESRCH: "no such process",
  ETXTBSY: "text file busy",
  EXDEV: "invalid cross-device link",
};

/** The text of a system error; for one that is not in the table, its own message. */
export function errnoText(error: unknown): string {
  const code = causeCode(error);
  return (code === undefined ? undefined : TEXTS[code]) ?? errorText(error);
}

/** `<operation> <path>: <text>`, the form of every file error on this wire. */
export function fileErrorText(operation: string, path: string, error: unknown): string {
  return `${operation} ${path}: ${errnoText(error)}`;
}

const FULL_DISK: ReadonlySet<string> = new Set(["ENOSPC", "EDQUOT"]);

/** Whether an error means that the disk or its quota is full. */
export function isDiskFull(error: unknown): boolean {
  const code = causeCode(error);
  return code !== undefined && FULL_DISK.has(code);
}
