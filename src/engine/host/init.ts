/**
 * The way to an init: process 1 becomes a small program that starts this one again as its child.
 * Standard streams, environment and arguments of that child are the same.
 */

import { findProgram } from "./find-program.ts";
import { perlCommand } from "./perl-program.ts";

/** Replaces this process. Returns where perl is missing, without which no sandbox starts either. */
export function becomeInit(perlDirectory: string): void {
  const perl = findProgram("perl");
  if (perl === undefined) return;
  const again = [process.execPath, ...process.execArgv, ...process.argv.slice(1)];
  process.execve?.(perl, perlCommand(perlDirectory, "init", [process.arch, ...again]));
}
