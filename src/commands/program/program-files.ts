/**
 * The files that the program runs, or copies into sandboxes, besides its own code: they lie beside
 * the program and, run from source, in their own directories.
 */

import { existsSync } from "node:fs";
import { join } from "node:path";

export interface ProgramFiles {
  /** The bundle of the daemon, and what starts it. */
  readonly bundle: string;
  readonly starter: string;
  readonly egress: string;
  /** The shell program of the guardian. */
  readonly guardian: string;
  readonly perlDirectory: string;
  readonly interpreterDirectory: string;
}

/** The files as they were installed. */
export function findProgramFiles(): ProgramFiles {
  return {
    bundle: find("envd.cjs", "../../../dist/envd.cjs"),
    starter: find("envd-starter.cjs", "../../../dist/envd-starter.cjs"),
    egress: find("egress.mjs", "../../../dist/egress.mjs"),
    guardian: find("guardian.sh", "../../shell/guardian.sh"),
    perlDirectory: join(find("syscalls.pl", "../../perl/syscalls.pl"), ".."),
    interpreterDirectory: find("interpreter", "../../interpreter"),
  };
}

function find(name: string, fromSource: string): string {
  const beside = join(import.meta.dirname, name);
  return existsSync(beside) ? beside : join(import.meta.dirname, fromSource);
}
