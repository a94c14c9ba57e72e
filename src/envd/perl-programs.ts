/** The perl programs that make the system calls that Node lacks, each as the command that runs it. */

import { join } from "node:path";
import { findBundledProgram, type Command } from "./bundled-program.ts";

export interface PerlPrograms {
  readonly attributes: Command;
  readonly inotify: Command;
  readonly spawner: Command;
  readonly terminal: Command;
}

/** They lie beside the daemon's own program, in a folder that no program of the sandbox writes to. */
export function findPerlPrograms(directory: string): PerlPrograms {
  const perl = findBundledProgram(directory, "perl") ?? ["perl"];
  // `-f`: nothing of the sandbox is read before the program.
  const command = (name: string): Command => [...perl, "-f", join(directory, name)];
  return {
    attributes: command("attributes.pl"),
    inotify: command("inotify.pl"),
    spawner: command("spawner.pl"),
    terminal: command("terminal.pl"),
  };
}
