/**
 * The order of test files. A new clone knows no durations of earlier runs, and goes by sizes: a short
 * file that takes a minute came last, with no other beside it.
 */

import { BaseSequencer, type TestSpecification } from "vitest/node";

/** Each takes a quarter of a minute or more, and is a short file of its part. */
const LONGEST = [
  "unit/perl/late-pause.test.ts",
  "unit/engine/guardian-program.test.ts",
  "e2e/faults/power-cuts.test.ts",
  "e2e/ordinary-user.test.ts",
  "security/network.test.ts",
  "security/escape/resources.test.ts",
  "security/signals/daemon.test.ts",
  "e2e/bad-start.test.ts",
  "e2e/command-line.test.ts",
  "e2e/stdio-end.test.ts",
  "e2e/from-nothing/first-run.test.ts",
  "e2e/soak.test.ts",
];

/** The longest files of each part of a level begin it; the others keep their order. */
export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    // oxlint-disable-next-line unicorn/no-array-sort -- it is no array's
    const sorted = await super.sort(files);
    const parts = Map.groupBy(sorted, ({ project }) => project.name);
    return [...parts.values()].flatMap((part) => part.toSorted((a, b) => rankOf(a) - rankOf(b)));
  }
}

function rankOf({ moduleId }: TestSpecification): number {
  const rank = LONGEST.findIndex((name) => moduleId.endsWith(`/test/${name}`));
  return rank === -1 ? LONGEST.length : rank;
}
