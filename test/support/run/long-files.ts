/**
 * Test files that `npm test` leaves out, by the variable that the command of their matrix sets. They
 * repeat with many rounds or clients, a real build of `base`, long waits or a full disk what shorter
 * files do once.
 */
export const LONG_FILES = {
  /** `npm run faults` */
  FAULTS: [
    "test/e2e/faults/build-kill.test.ts",
    "test/e2e/faults/call-pairs.test.ts",
    "test/e2e/faults/call-sequences.test.ts",
    "test/e2e/faults/chain.test.ts",
    "test/e2e/faults/clone-kill.test.ts",
    "test/e2e/faults/disk-fill.test.ts",
    "test/e2e/faults/guardian-deadlines.test.ts",
    "test/e2e/faults/guardian-kill.test.ts",
    "test/e2e/faults/mount-copies.test.ts",
    "test/e2e/faults/overlapping-sessions.test.ts",
    "test/e2e/faults/pool.test.ts",
    "test/e2e/faults/random-kills.test.ts",
    "test/e2e/faults/runtime.test.ts",
    "test/e2e/faults/session-sequences.test.ts",
    "test/e2e/faults/store.test.ts",
    "test/e2e/faults/template-sequences.test.ts",
    "test/e2e/faults/tool-sequences.test.ts",
    "test/e2e/faults/volume-sequences.test.ts",
    "test/e2e/faults/volumes.test.ts",
    "test/e2e/faults/write-faults-at-starts.test.ts",
    "test/e2e/faults/write-faults.test.ts",
    "test/integration/cluster/faults/*.test.ts",
  ],
  /** `npm run first-run` */
  FIRST_RUN: [
    "test/e2e/from-nothing/base-build.test.ts",
    "test/e2e/from-nothing/once-made.test.ts",
  ],
  /** `npm run clients:tls` */
  CLIENTS: ["test/e2e/sdk/template-build.test.ts", "test/e2e/sdk/template-clients.test.ts"],
  /** `npm run security` */
  SECURITY_RUN: [
    "test/security/bounds/slow-readers.test.ts",
    "test/security/bounds/stopped-daemon.test.ts",
    "test/security/bounds/watch-burst.test.ts",
    "test/security/first-run/disk-full.test.ts",
    "test/security/images/bombs.test.ts",
    "test/security/marks.test.ts",
    "test/security/removal/{clean-up,trees}.test.ts",
  ],
} as const;
