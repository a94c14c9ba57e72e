/**
 * Test files of the levels e2e and security that measure how long something takes, or flood the
 * machine. They run after all others.
 */

/** Each runs alone: it floods the machine, or compares with a bound of few seconds. */
export const ALONE_FILES: readonly string[] = [
  "test/e2e/engine/container.test.ts",
  "test/e2e/faults.test.ts",
  "test/security/bounds/{log-flood,neighbour,slow-readers}.test.ts",
  "test/security/escape/*.test.ts",
];

/**
 * Several of them at a time: they wait for most of their time, load the machine little, and their
 * bounds hold beside busy loops too.
 */
export const WAITING_FILES: readonly string[] = [
  "test/e2e/faults/guardian-deadlines.test.ts",
  "test/e2e/serve-restart.test.ts",
  "test/e2e/soak.test.ts",
  "test/e2e/stdio-end.test.ts",
  "test/security/bounds/stopped-daemon.test.ts",
  "test/security/fuzz/findings.test.ts",
  "test/security/lifecycle.test.ts",
  "test/security/signals/{daemon,states}.test.ts",
  "test/security/templates/*.test.ts",
];

export const TIMED_FILES: readonly string[] = [...ALONE_FILES, ...WAITING_FILES];
