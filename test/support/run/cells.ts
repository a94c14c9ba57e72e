/** How many cells of a matrix a test has looked at; the report of a whole run adds them up. */

import type { TestContext } from "vitest";

declare module "vitest" {
  interface TaskMeta {
    /** Combinations that one test tried, where they are more than one. */
    cells?: number;
  }
}

/** Called once in a test. */
export function tellCells({ task }: Pick<TestContext, "task">, cells: number): void {
  task.meta.cells = cells;
}
