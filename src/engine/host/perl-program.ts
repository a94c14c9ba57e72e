/** The programs of `src/perl`, which make the system calls that Node lacks. */

import { join } from "node:path";

type PerlProgram =
  | "behind-proxy"
  | "boot-id"
  | "clone-disk"
  | "copier"
  | "find-data"
  | "forget-connections"
  | "init"
  | "launcher"
  | "sentry-relay"
  | "user-namespace"
  | "write-tree";

/** The command of a program; each lies in the directory beside its table of system calls. */
export function perlCommand(
  perlDirectory: string,
  program: PerlProgram,
  words: readonly string[],
): [string, ...string[]] {
  return ["perl", join(perlDirectory, `${program}.pl`), ...words];
}
