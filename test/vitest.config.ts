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

/**
 * What the whole run of `npm run security` takes of other levels: who may enter, faults, ends, and
 * every file with a test that is named for an attack of scripts/evidence-rows.ts.
 */
const BESIDES = [
  "test/contract/routes.test.ts",
  "test/contract/teams.test.ts",
  "test/e2e/from-nothing/*.test.ts",
  "test/e2e/faults/{fail,kill,pool,random-kills,runtime}.test.ts",
  "test/e2e/stdio-end.test.ts",
  "test/integration/envd/access.test.ts",
  "test/e2e/error-log.test.ts",
  "test/integration/engine/lock.test.ts",
  "test/integration/gateway.test.ts",
  "test/integration/mcp/http.test.ts",
  "test/unit/gateway/attempts.test.ts",
  "test/unit/gateway/reserved-path.test.ts",
  "test/unit/listener/dispatch.test.ts",
  "test/unit/log-calls.test.ts",
];
const security = level("security", 120_000, false).test;

export default defineConfig({
  test: {
    projects: [
      level("unit", 10_000, true),
      level("contract", 20_000, true),
      level("integration", 30_000, true),
      level("e2e", 120_000, false),
      {
        test: {
          ...security,
          include: [
            ...security.include,
            ...(process.env["SECURITY_RUN"] === "whole" ? BESIDES : []),
          ],
          globalSetup: ["test/support/whole-run.ts"],
        },
      },
    ],
    coverage: { provider: "v8", include: ["src/**"], exclude: ["src/gen/**"] },
  },
});
