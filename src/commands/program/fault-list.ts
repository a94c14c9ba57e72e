/** Several faults of one input, each of which is printed in a line of its own. */

import { SandboxError, type ErrorCode } from "../../common/errors.ts";

/** A file of another kind has a fault in every line. */
const MAX_FAULTS = 20;

export class FaultList extends SandboxError {
  readonly lines: readonly string[];

  constructor(code: ErrorCode, faults: readonly string[]) {
    const more = faults.length - MAX_FAULTS;
    const lines = faults.slice(0, MAX_FAULTS);
    if (more > 0) lines.push(`and ${more} more`);
    super(code, lines.join("\n"));
    this.lines = lines;
  }
}
