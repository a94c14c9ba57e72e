/** What the kernel keeps of the connections of a link that has gone. */

import { perlCommand } from "../host/perl-program.ts";
import { runProgram } from "../host/run-program.ts";
import type { Router } from "./router-record.ts";

/**
 * Forgets all connections of an address, in its router and outside. Best effort: a kernel without
 * this interface keeps them until their time is over.
 */
export async function forgetConnections(
  perlDirectory: string,
  { path, outside }: Pick<Router, "path" | "outside">,
  address: string,
): Promise<void> {
  const words = [process.arch, path, address, ...(outside === null ? [] : [outside])];
  await runProgram(perlCommand(perlDirectory, "forget-connections", words)).catch(() => undefined);
}
