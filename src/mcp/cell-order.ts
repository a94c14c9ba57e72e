/** The order of cells: the interpreter runs one cell of a context at a time, the others wait. */

import type { Capture } from "../output/capture.ts";
import type { Captures } from "../output/captures.ts";

interface CellContext {
  readonly language: string;
  /** The name that the caller gave; undefined for the default one of the language. */
  readonly context?: string | undefined;
}

const CONTEXTS = new WeakMap<Capture, string>();

/** Notes the context of a cell that was started. */
export function noteCell(capture: Capture, { language, context }: CellContext): void {
  // Both have one default context; a name is made for one language.
  const isShared = context === undefined && language === "typescript";
  CONTEXTS.set(capture, `${isShared ? "javascript" : language} ${context ?? ""}`);
}

/** The cell that runs in the context of this one, which waits for it; undefined where none is known. */
export function cellBefore(capture: Capture, captures: Captures): Capture | undefined {
  const context = CONTEXTS.get(capture);
  const cells = captures.running(capture.sandboxId);
  const first = cells.find((each) => CONTEXTS.get(each) === context);
  return first === capture ? undefined : first;
}
