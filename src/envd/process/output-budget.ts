/** What all processes together hold of output that their readers have not taken. */

import { SandboxError } from "../../common/errors.ts";

export interface OutputBudget {
  /** How far a reader may be behind before it counts as full: less when much is held already. */
  readonly windowBytes: number;
  /** Notes that so much more, or with a negative number less, is held. */
  add(bytes: number): void;
  /** @throws SandboxError resource_exhausted when too much is held to start another process. */
  requireSpace(): void;
}

/** For one process, as long as there is plenty. */
const WINDOW_BYTES = 1_048_576;
/** What each process gets when all together hold a lot: two reads of a pipe. */
const SMALL_WINDOW_BYTES = 131_072;
const PLENTY_BYTES = 16_777_216;
/** Processes that ended leave theirs behind for as long as a reader may pause. */
const MAX_BYTES = 67_108_864;

export function createOutputBudget(): OutputBudget {
  let held = 0;
  return {
    get windowBytes() {
      return held < PLENTY_BYTES ? WINDOW_BYTES : SMALL_WINDOW_BYTES;
    },
    add(bytes) {
      held += bytes;
    },
    requireSpace() {
      if (held < MAX_BYTES) return;
      const message = `output that nobody reads exceeds ${MAX_BYTES} bytes`;
      throw new SandboxError("resource_exhausted", message);
    },
  };
}
