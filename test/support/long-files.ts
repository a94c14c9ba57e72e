/**
 * Test files that `npm test` leaves out, by the variable that the command of their matrix sets: its
 * value `all` runs them. They repeat with many rounds, a real build of `base` or a full disk what
 * shorter files of the same folder do once.
 */
export const LONG_FILES: Readonly<Record<"FAULTS" | "FIRST_RUN", readonly string[]>> = {
  /** `npm run faults` */
  FAULTS: [
    "test/e2e/faults/build-kill.test.ts",
    "test/e2e/faults/call-sequences.test.ts",
    "test/e2e/faults/chain.test.ts",
    "test/e2e/faults/disk-fill.test.ts",
    "test/e2e/faults/guardian-kill.test.ts",
    "test/e2e/faults/pool.test.ts",
    "test/e2e/faults/power-cuts.test.ts",
    "test/e2e/faults/random-kills.test.ts",
    "test/e2e/faults/runtime.test.ts",
    "test/e2e/faults/write-faults-at-starts.test.ts",
    "test/e2e/faults/write-faults.test.ts",
  ],
  /** `npm run first-run` */
  FIRST_RUN: [
    "test/e2e/from-nothing/base-build.test.ts",
    "test/e2e/from-nothing/once-made.test.ts",
  ],
};
