/** The home of a command that only tries the machine, where the home that was named is not there. */

import { chmodSync, lstatSync, mkdirSync, statSync } from "node:fs";
import { dirname, join } from "node:path";
import { errorText, isCode } from "../common/errors.ts";
import { removeTree } from "../common/remove-tree.ts";

const OWNER_MODE = 0o700;
const RIGHTS_OF_OTHERS = 0o077;
const NAME = ".sandbox-mcp-trial-";

/** Disposing removes it, with all that the command left in it. */
export interface TrialHome extends AsyncDisposable {
  readonly path: string;
}

/**
 * A directory on the file system on which the home would be made; undefined where this user can make
 * none there. Its name has the number of this process: the program that takes the place of this one,
 * to be root in a namespace, has the same number and finds the same directory.
 */
export function openTrialHome(home: string): TrialHome | undefined {
  const path = join(findParent(home), `${NAME}${process.pid}`);
  try {
    makeOwn(path);
  } catch {
    // The command says what is wrong with the home itself.
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

/** The nearest directory that is there. */
function findParent(path: string): string {
  const parent = dirname(path);
  if (parent === path) return parent;
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
