/** What helps where no runtime starts a container, by what was said when one was tried. */

import { release } from "node:os";
import { NO_PROCESS } from "../../common/shortage.ts";
import { installCommand } from "../host/install-command.ts";
import { HOME_REMEDY, RIGHTS_REMEDY } from "./requirements.ts";

/** Its failure says that a file system cannot be mounted with other ids. */
const ID_MAP_CALL = "mount_setattr";
/** Older ones show no layer of an overlay with other ids; what they lack fails in many ways. */
const MIN_KERNEL = [5, 19] as const;
/** What a container's filter of system calls, its lack of rights or its own `/proc/sys` looks like. */
const REFUSAL = /operation not permitted|function not implemented|read-only file system/i;

/** @param detail what the launcher or the runtime said: what all of them are refused is no fault of the runtime. */
export function failureRemedy(detail: string, kernel = release()): string {
  if (isOld(kernel)) return `use Linux ${MIN_KERNEL.join(".")} or newer, this is ${kernel}`;
  if (detail.includes(NO_PROCESS.message)) return NO_PROCESS.hint;
  if (REFUSAL.test(detail)) return RIGHTS_REMEDY;
  return detail.includes(ID_MAP_CALL) ? HOME_REMEDY : `try another runtime: ${installCommand()}`;
}

function isOld(kernel: string): boolean {
  const [major = 0, minor = 0] = kernel.split(".").map(Number);
  return major < MIN_KERNEL[0] || (major === MIN_KERNEL[0] && minor < MIN_KERNEL[1]);
}
