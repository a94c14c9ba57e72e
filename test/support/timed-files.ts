/**
 * Test files that measure how long something takes, or flood the machine: each runs alone, after all
 * others of the levels e2e and security, of which two at a time share the processors.
 */
export const TIMED_FILES: readonly string[] = [
  "test/e2e/engine/container.test.ts",
  "test/e2e/faults.test.ts",
  "test/e2e/guardian-deadlines.test.ts",
  "test/e2e/serve-restart.test.ts",
  "test/e2e/soak.test.ts",
  "test/e2e/stdio-end.test.ts",
  "test/security/bounds/{log-flood,neighbour,slow-readers,stopped-daemon}.test.ts",
  "test/security/escape/*.test.ts",
  "test/security/fuzz/findings.test.ts",
  "test/security/lifecycle.test.ts",
  "test/security/signals/{daemon,states}.test.ts",
  "test/security/templates/*.test.ts",
];
