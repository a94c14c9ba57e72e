/** What a clean-up could not remove, as lines for people. */

import type { CleanUpFailure } from "../common/clean-up.ts";
import { errorText } from "../common/errors.ts";
import { quoteUntrusted } from "../common/log.ts";

/** One line, with the name escaped; the next clean-up tries again. */
export function describeFailure({ kind, name, error }: CleanUpFailure): string {
  const reason = quoteUntrusted(errorText(error));
  return `sandbox-mcp: could not remove ${kind} ${quoteUntrusted(name)}: ${reason}\n`;
}
