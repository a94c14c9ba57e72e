/** Test levels as vitest projects; each level has its own folder and time limit. */

import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";

function level(name: string, testTimeout: number, parallel: boolean) {
  return {
    test: {
      name,
      include: [`test/${name}/**/*.test.ts`],
      testTimeout,
      hookTimeout: testTimeout,
      // The runner's own choice leaves one core free: on a machine with two, half of it.
      ...(parallel ? { maxWorkers: availableParallelism() } : { fileParallelism: false }),
      // A machine under load is slow, not wrong: what is waited for has time to come.
      expect: { poll: { timeout: 10_000 } },
    },
  };
}

export default defineConfig({
  test: {
    projects: [
      level("unit", 10_000, true),
      level("contract", 20_000, true),
      level("integration", 30_000, true),
      level("e2e", 120_000, false),
      {
        test: {
          ...level("security", 120_000, false).test,
          globalSetup: ["test/support/whole-run.ts"],
        },
      },
    ],
    coverage: { provider: "v8", include: ["src/**"], exclude: ["src/gen/**"] },
  },
});
