/** Clean-up of many things: one that fails does not keep the others. */

import { errorText } from "./errors.ts";
import { quoteUntrusted } from "./untrusted-text.ts";

/** One thing that could not be removed; it is tried again at the next clean-up. */
export interface CleanUpFailure {
  /** What it is: `sandbox`, `layer`, `volume` and so on. */
  readonly kind: string;
  /** Its name, which may be hostile. */
  readonly name: string;
  readonly error: unknown;
}

export type TellFailure = (failure: CleanUpFailure) => void;

export interface CleanUp {
  readonly kind: string;
  readonly names: readonly string[];
  remove(name: string): Promise<unknown>;
}

/** Removes each, one after another; returns the names of those that went. */
export async function cleanUp(plan: CleanUp, tell: TellFailure): Promise<string[]> {
  const { kind, names } = plan;
  const removed: string[] = [];
  for (const name of names) {
    try {
      await plan.remove(name);
      removed.push(name);
    } catch (error) {
      tell({ kind, name, error });
    }
  }
  return removed;
}

/** One line for the user, with the name escaped; the next clean-up tries again. */
export function printFailure({ kind, name, error }: CleanUpFailure): void {
  const reason = quoteUntrusted(errorText(error));
  process.stderr.write(
    `sandbox-mcp: could not remove ${kind} ${quoteUntrusted(name)}: ${reason}\n`,
  );
}
