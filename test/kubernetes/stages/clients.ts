/** The official clients through both fronts: suites of JavaScript and Python, unmodified. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { join, resolve } from "node:path";
import { z } from "../../../src/common/schema.ts";
import { expectNothing, eventually, type World } from "../world.ts";

const ROOT = resolve(import.meta.dirname, "../../..");
const VITEST = join(ROOT, "node_modules/vitest/vitest.mjs");
const SUITES = "commands files git metadata pty python sandbox signing watch".split(" ");

/** The ends of the names of tests for what Pods lack, with the reason. One that passes is a fault of this list. */
const MISSING: readonly (readonly [string, string])[] = [
  ["a pause keeps processes", "programs of a Pod end when it is paused"],
  ["the rules of its network are replaced", "rules of egress hold from the create to the end"],
  [
    "tags of a snapshot are set, listed and removed",
    "templates are images, without tags of the service",
  ],
  ["the_content_of_a_volume", "volumes are not offered by these fronts, nor their content by any"],
];

const report = z.object({
  testResults: z.array(
    z.object({
      name: z.string(),
      message: z.string().optional(),
      assertionResults: z.array(
        z.object({
          fullName: z.string(),
          status: z.string(),
          failureMessages: z.array(z.string()),
        }),
      ),
    }),
  ),
});

export async function runClients(world: World): Promise<void> {
  for (const suite of SUITES) {
    await world.check(`clients: ${suite}`, () => runSuite(world, suite));
  }
  await world.check("clients: nothing is left", () =>
    eventually(() => expectNothing(world.admin), 60_000),
  );
}

async function runSuite({ url, apiKey, directory }: World, suite: string): Promise<string> {
  const output = join(directory, `suite-${suite}.json`);
  const file = `test/e2e/sdk/${suite}.test.ts`;
  const words = ["run", "--root", ".", "--config", "test/vitest.config.ts", "--project", "e2e"];
  const child = spawn(
    process.execPath,
    [VITEST, ...words, "--reporter=json", `--outputFile=${output}`, file],
    {
      cwd: ROOT,
      stdio: "ignore",
      env: { ...process.env, SDK_FRONT: url, SDK_FRONT_KEY: apiKey },
    },
  );
  await once(child, "exit");
  const { testResults } = report.parse(JSON.parse(readFileSync(output, "utf8")));
  const results = testResults.flatMap(({ assertionResults }) => assertionResults);
  const failed = results.filter(({ status }) => status === "failed");
  const known = failed.filter(({ fullName }) => reasonOf(fullName) !== undefined);
  const unknown = failed.filter((result) => !known.includes(result));
  const passed = results.filter(({ status }) => status === "passed").length;
  const surprises = results.filter(
    ({ status, fullName }) => status === "passed" && reasonOf(fullName) !== undefined,
  );
  if (surprises.length > 0) {
    throw new Error(`listed, and passed: ${surprises.map(({ fullName }) => fullName).join("; ")}`);
  }
  if (unknown.length > 0 || passed === 0) {
    const lines = unknown.map(
      ({ fullName, failureMessages: [message = ""] }) => `${fullName}: ${message.slice(0, 300)}`,
    );
    const broken = testResults.map(({ message }) => message ?? "").join(" ");
    throw new Error([`${passed} passed ${broken.slice(0, 500)}`, ...lines].join("\n    "));
  }
  const reasons = known.map(({ fullName }) => `${fullName}: ${reasonOf(fullName)}`);
  return [`${passed} passed`, ...reasons].join("\n    ");
}

function reasonOf(name: string): string | undefined {
  return MISSING.find(([end]) => name.endsWith(end))?.[1];
}
