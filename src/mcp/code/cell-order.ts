/** The order of cells: the interpreter runs one cell of a context at a time, the others wait. */

import type { Capture } from "../../output/capture.ts";
import type { Captures } from "../../output/captures.ts";

export interface CellOrder {
  /** Notes the context of a cell that was started. */
  note(capture: Capture, context: CellContext): void;
  /** The cell that runs in the context of this one, which waits for it; undefined where none is known. */
  before(capture: Capture, captures: Captures): Capture | undefined;
}

interface CellContext {
  readonly language: string;
  /** The name that the caller gave; undefined for the default one of the language. */
  readonly context?: string | undefined;
}

/** An order of which no cell is known. */
export function createCellOrder(): CellOrder {
  const contexts = new WeakMap<Capture, string>();
  return {
    note(capture, { language, context }) {
      // Both have one default context; a name is made for one language.
      const isShared = context === undefined && language === "typescript";
      contexts.set(capture, `${isShared ? "javascript" : language} ${context ?? ""}`);
    },
    before(capture, captures) {
      const context = contexts.get(capture);
      const cells = captures.inState(capture.sandboxId, "running");
      const first = cells.find((each) => contexts.get(each) === context);
      return first === capture ? undefined : first;
    },
  };
}
