/** The pipes of a program that the spawner started, which it made in a directory of their own. */

import { closeSync, constants, fstatSync, openSync, rmSync } from "node:fs";
import { join } from "node:path";
import { isCode, SandboxError } from "../../common/errors.ts";

/** Descriptors of the daemon's ends. */
export interface OpenPipes {
  /** Undefined for a program that was started without input. */
  readonly stdin: number | undefined;
  readonly stdout: number;
  readonly stderr: number;
}

/**
 * Our ends of the pipes, or none: what was started is killed then. Should both the spawner and the
 * program have ended, the open of an end must not wait for another one.
 */
export function openPipes(directory: string, hasInput: boolean, kill: () => void): OpenPipes {
  const opened: number[] = [];
  const open = (name: string, flags: number): number => {
    const descriptor = openSync(join(directory, name), flags | constants.O_NONBLOCK);
    opened.push(descriptor);
    // Root inside may have put something else there.
    if (!fstatSync(descriptor).isFIFO()) throw new Error("not a pipe");
    return descriptor;
  };
  try {
    return {
      stdin: hasInput ? open("in", constants.O_WRONLY) : undefined,
      stdout: open("out", constants.O_RDONLY),
      stderr: open("err", constants.O_RDONLY),
    };
  } catch (error) {
    for (const descriptor of opened) closeSync(descriptor);
    kill();
    if (!isCode(error, "ENXIO", "ENOENT")) throw error;
    // What made them has ended, and maybe the program as well: nothing is wrong with its command.
    throw new SandboxError("unavailable", "the pipes of the process have gone", { cause: error });
  }
}

/** The directory that the spawner made for the pipes of one start. */
export function removePipes(directory: string): void {
  try {
    rmSync(directory, { recursive: true, force: true });
  } catch {
    // What others have put there is theirs.
  }
}
