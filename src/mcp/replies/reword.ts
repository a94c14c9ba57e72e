/**
 * Ordinary causes that a daemon reports as a fault of its own, or of the key: a file that may not
 * be read is no failure of the service, and a caller can do something about it.
 */

import { SandboxError, type ErrorCode } from "../../common/errors.ts";

interface Cause {
  readonly pattern: RegExp;
  readonly code: ErrorCode;
  readonly hint: string;
}

const OTHER_USER = "Another user of the sandbox may be allowed to, such as user=root.";

/** What the daemon's words mean; they come from a sandbox and choose a text, no more. */
const CAUSES: readonly Cause[] = [
  {
    pattern: /permission denied|operation not permitted/i,
    code: "permission_denied",
    hint: `The file system of the sandbox does not allow it. ${OTHER_USER}`,
  },
  {
    pattern: /no such file or directory|no such process/i,
    code: "not_found",
    hint: "It is not there, or went away meanwhile: list what there is before you call again.",
  },
  {
    pattern: /not a directory|is a directory|path is a file|file exists|not a regular file/i,
    code: "invalid_argument",
    hint: "Something of another kind stands at this path or above it.",
  },
  {
    pattern: /not enabled or closed|broken pipe|cannot close stdin/i,
    code: "failed_precondition",
    hint: "The stdin of the process is closed.",
  },
  {
    pattern: /no space left|disk quota exceeded/i,
    code: "resource_exhausted",
    hint: "The sandbox's disk is full: delete something first.",
  },
  {
    pattern: /invalid cross-device link/i,
    code: "failed_precondition",
    hint: "The two paths are on different file systems: the command mv copies between them.",
  },
  {
    pattern: /cannot allocate memory|too many open files|resource temporarily unavailable/i,
    code: "resource_exhausted",
    hint: "The sandbox has reached a limit of its own: end processes there first.",
  },
  {
    pattern: /read-only file system|device or resource busy|text file busy|directory not empty/i,
    code: "failed_precondition",
    hint: "This place of the sandbox cannot be changed now; use another path.",
  },
  {
    pattern:
      /file name too long|file too large|too many levels of symbolic links|invalid argument|no such device|operation not supported/i,
    code: "invalid_argument",
    hint: "Correct the path, then call again.",
  },
];

const UNKNOWN_USER = /unknown user|invalid default user/;

/** The error with the code and the next step of its ordinary cause; any other as it is. */
export function reword(error: SandboxError): SandboxError {
  const { message, cause } = error;
  if (error.code === "unauthenticated" && UNKNOWN_USER.test(message)) {
    const hint = `The sandbox's /etc/passwd does not list that user. ${OTHER_USER}`;
    return new SandboxError("invalid_argument", message, { cause, hint });
  }
  if (error.code !== "internal" || !FROM_DAEMON.test(message)) return error;
  const known = CAUSES.find(({ pattern }) => pattern.test(message));
  if (known === undefined) return error;
  return new SandboxError(known.code, message, { cause, hint: error.hint ?? known.hint });
}

/** Words of a daemon are quoted in a message; a fault of this server quotes nothing. */
const FROM_DAEMON = /: (?:the service answered [0-9]{3} )?"/;
