/** The home of a command that only tries the machine, where the home that was named is not there. */

import { chmodSync, lstatSync, mkdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { errorText, isCode } from "../../common/errors.ts";
import { removeTree } from "../../common/remove-tree.ts";
import { readStartTicks } from "../../engine/host/process-stat.ts";

const OWNER_MODE = 0o700;
const RIGHTS_OF_OTHERS = 0o077;
const NAME = ".sandbox-mcp-trial-";

/** Disposing removes it, with all that the command left in it. */
export interface TrialHome extends AsyncDisposable {
  readonly path: string;
}

/**
 * A directory on the file system on which the home would be made; undefined where this user can make
 * none there. Its name has the number and the start of this process: those of the program that takes
 * the place of this one, to be root in a namespace, are the same, and it finds the same directory. In
 * two containers that share the file system the numbers alone are often the same.
 */
export function openTrialHome(home: string): TrialHome | undefined {
  const parent = findParent(home);
  // The command says what is wrong with the home itself.
  if (parent === undefined) return undefined;
  const path = join(parent, `${NAME}${process.pid}-${readStartTicks(process.pid)}`);
  try {
    makeOwn(path);
  } catch {
    return undefined;
  }
  return { path, [Symbol.asyncDispose]: () => remove(path) };
}

/** What the command found counts, whatever stays. */
async function remove(path: string): Promise<void> {
  try {
    await removeTree(path);
  } catch (error) {
    process.stderr.write(`sandbox-mcp: ${path} was not removed: ${errorText(error)}\n`);
  }
}

/** The nearest one that is there; undefined where no home can be made, behind a link to nothing. */
function findParent(path: string): string | undefined {
  if (lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink()) return undefined;
  const parent = dirname(path);
  return statSync(parent, { throwIfNoEntry: false }) === undefined ? findParent(parent) : parent;
}

/** One that another user has put there is not used. */
function makeOwn(path: string): void {
  try {
    mkdirSync(path, { mode: OWNER_MODE });
    chmodSync(path, OWNER_MODE);
  } catch (error) {
    if (!isCode(error, "EEXIST")) throw error;
  }
  const entry = lstatSync(path);
  const isPrivate = entry.isDirectory() && (entry.mode & RIGHTS_OF_OTHERS) === 0;
  if (!isPrivate || entry.uid !== process.geteuid?.()) {
    throw new RangeError(`${path} is not our own`);
  }
}
