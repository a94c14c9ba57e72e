/**
 * Has Node keep in the home what it compiles, so that later starts need not. It comes before
 * anything large is loaded, so it looks for the home by itself.
 */

import { lstatSync } from "node:fs";
import { enableCompileCache } from "node:module";
import { join, resolve } from "node:path";
import { parseArgs } from "node:util";
import { checkHome } from "./common/home-folder.ts";
import { makeFolders } from "./common/make-folders.ts";
import { defaultHome } from "./common/privilege.ts";
import { isForShell } from "./common/shell-path.ts";

const WRITABLE_BY_OTHERS = 0o022;

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * What is found there is run unread, so no other user may be able to write it: where that is not
 * certain the program goes without, as it does where nothing can be written.
 */
export function keepCompiled(environment: Environment, argv: readonly string[]): void {
  const home = findHome(environment, argv);
  if (home === undefined || !isAccepted(home)) return;
  // One that was typed wrong must not be made; commands make those that they need.
  if (home !== resolve(defaultHome(environment)) && isMissing(home)) return;
  const folder = join(home, "cache");
  try {
    makeFolders(folder, 0o700);
  } catch {
    // A home that can only be read may hold what was compiled before.
  }
  if (isOurs(home) && isOurs(folder)) enableCompileCache(folder);
}

/**
 * As the configuration will find it; undefined where it finds a fault. All other faults of flags are
 * told by that.
 */
function findHome(environment: Environment, argv: readonly string[]): string | undefined {
  const { tokens } = parseArgs({
    args: [...argv],
    options: { home: { type: "string" } },
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const given = tokens.flatMap((token) =>
    token.kind === "option" && token.name === "home" ? [token] : [],
  );
  const [first] = given;
  if (first === undefined) {
    const named = environment["SANDBOX_MCP_HOME"] ?? "";
    if (isForShell(named)) return undefined;
    return resolve(named === "" ? defaultHome(environment) : named);
  }
  const isPlain = first.inlineValue === true || first.value?.startsWith("-") === false;
  const { value = "" } = first;
  if (given.length > 1 || !isPlain || value === "" || isForShell(value)) return undefined;
  return resolve(value);
}

function isMissing(home: string): boolean {
  try {
    return lstatSync(home, { throwIfNoEntry: false }) === undefined;
  } catch {
    // What cannot be looked at cannot be used either.
    return true;
  }
}

/** Where it is not, the command says why. */
function isAccepted(home: string): boolean {
  try {
    checkHome(home);
    return true;
  } catch {
    return false;
  }
}

function isOurs(path: string): boolean {
  try {
    const entry = lstatSync(path);
    return (
      entry.isDirectory() &&
      entry.uid === process.geteuid?.() &&
      (entry.mode & WRITABLE_BY_OTHERS) === 0
    );
  } catch {
    // It is not there, or this user may not look.
    return false;
  }
}
