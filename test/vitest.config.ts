/** Test levels as vitest projects; each level has its own folder and time limit. */

import { availableParallelism } from "node:os";
import { defineConfig } from "vitest/config";
import { LONG_FILES } from "./support/run/long-files.ts";
import { LongestFirst } from "./support/run/longest-first.ts";
import { ALONE_FILES, TIMED_FILES, WAITING_FILES } from "./support/run/timed-files.ts";

const LEFT_OUT = Object.entries(LONG_FILES).flatMap(([variable, files]) =>
  process.env[variable] === undefined ? files : [],
);

interface Level {
  readonly name: string;
  readonly testTimeout: number;
  readonly globalSetup?: string[];
}

function level({ name, testTimeout, globalSetup = [] }: Level) {
  return {
    test: {
      name,
      include: [`test/${name}/**/*.test.ts`],
      exclude: LEFT_OUT,
      testTimeout,
      hookTimeout: testTimeout,
      globalSetup,
      setupFiles: ["test/support/run/no-warnings.ts"],
      // Most files wait for most of their time: two processors are busy with four.
      maxWorkers: availableParallelism() + 2,
      // A process and all imports for each file would take half of the processors' time.
      isolate: false,
      // A machine under load is slow, not wrong: what is waited for has time to come.
      expect: { poll: { timeout: 20_000 } },
    },
  };
}

/** More at once wait for each other: each file has a service with sandboxes, often floods of calls. */
const MAX_SERVICES = Math.min(3, availableParallelism() + 1);
/** As the files of other levels, these leave the processors to others for most of their time. */
const MAX_WAITING = 4;

/** A level in three parts: its files, then those that measure times, several at once and one by one. */
function levelOfServices(wanted: Level) {
  const { test } = level(wanted);
  const own = (file: string) => file.startsWith(`test/${wanted.name}/`);
  return [
    {
      test: {
        ...test,
        exclude: [...LEFT_OUT, ...TIMED_FILES],
        maxWorkers: MAX_SERVICES,
        // A group has one number of workers; files that run one by one come after all groups.
        sequence: { groupOrder: 1 },
      },
    },
    {
      test: {
        ...test,
        name: `${wanted.name}-waiting`,
        include: WAITING_FILES.filter(own),
        maxWorkers: MAX_WAITING,
        sequence: { groupOrder: 2 },
      },
    },
    {
      test: {
        ...test,
        name: `${wanted.name}-timed`,
        include: ALONE_FILES.filter(own),
        ...ONE_BY_ONE,
        sequence: { groupOrder: 3 },
      },
    },
  ];
}

const ONE_BY_ONE = { maxWorkers: 1, fileParallelism: false } as const;

/**
 * What the whole run of `npm run security` takes of other levels: who may enter, faults, ends, and
 * every file with a test that is named for an attack of scripts/evidence-rows.ts.
 */
const BESIDES = [
  "test/contract/routes.test.ts",
  "test/contract/teams.test.ts",
  "test/e2e/from-nothing/*.test.ts",
  "test/e2e/faults/{fail,kill,pool,power-cuts,random-kills,runtime,write-faults}.test.ts",
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
const SECURITY: Level = {
  name: "security",
  testTimeout: 120_000,
  globalSetup: ["test/support/run/whole-run.ts"],
};

/** One project, one file after the other: its report tells figures of all of them. */
function wholeSecurity() {
  const { test } = level(SECURITY);
  return [{ test: { ...test, include: [...test.include, ...BESIDES], ...ONE_BY_ONE } }];
}

export default defineConfig({
  test: {
    globalSetup: ["test/support/run/run-folder.ts"],
    sequence: { sequencer: LongestFirst },
    projects: [
      level({ name: "unit", testTimeout: 60_000 }),
      level({ name: "contract", testTimeout: 60_000 }),
      level({ name: "integration", testTimeout: 60_000 }),
      ...levelOfServices({ name: "e2e", testTimeout: 120_000 }),
      ...(process.env["SECURITY_RUN"] === "whole" ? wholeSecurity() : levelOfServices(SECURITY)),
    ],
    coverage: { provider: "v8", include: ["src/**"], exclude: ["src/gen/**"] },
  },
});
