/**
 * The Python package of the public client, blocking and with asyncio: an old and a new release.
 * The cases are in `python/cases.py`; here they get a service, and a test each.
 */

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { promisify } from "node:util";
import { beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { findPythonClient } from "../../support/clients/python-client.ts";
import { isOverTls, useSdkServe } from "../../support/clients/sdk.ts";
import { isGvisor } from "../../support/level.ts";

const SCRIPT = join(import.meta.dirname, "python/cases.py");

/** All cases of both clients take a few seconds. */
const RUN_LIMIT_MS = 90_000;

/** Named where every release must play; then one that is not there fails. */
const named = (process.env["SDK_PYTHON"] ?? "").split(",").filter(Boolean);
const usual = isOverTls ? ["2.63.0"] : ["2.45.1", "2.63.0"];
const VERSIONS = named.length > 0 ? named : usual;

const outcome = z.object({ client: z.string(), name: z.string(), error: z.string().nullable() });

const source = await readFile(SCRIPT, "utf8");
const names = [...source.matchAll(/^async def case_(\w+)\(/gm)].map(([, name = ""]) => name);
const cases = ["sync", "async"].flatMap((client) => names.map((name) => `${client}: ${name}`));
const releases = await Promise.all(VERSIONS.map(async (version) => findPythonClient(version)));

const service = useSdkServe();

/** What became of each case; the text of a fault, or that there was none. */
async function runCases(python: string): Promise<ReadonlyMap<string, string>> {
  const { stdout } = await promisify(execFile)(python, [SCRIPT], {
    timeout: RUN_LIMIT_MS,
    env: {
      PATH: process.env["PATH"],
      HOME: process.env["HOME"],
      ...service.environment,
      ...(isGvisor && { MAY_LACK_ATTRIBUTES: "1" }),
    },
  });
  const lines = stdout.trim().split("\n");
  const outcomes = lines.map((line) => outcome.parse(JSON.parse(line)));
  return new Map(
    outcomes.map(({ client, name, error }) => [`${client}: ${name}`, error ?? "passed"]),
  );
}

describe.each(releases)("python e2b $version $reason", ({ python, reason }) => {
  let outcomes: ReadonlyMap<string, string> | undefined;

  beforeAll(async () => {
    if (python !== undefined) outcomes = await runCases(python);
  });

  test.skipIf(reason !== "" && named.length === 0).for(cases)("%s", (name) => {
    expect(outcomes?.get(name) ?? reason).toBe("passed");
  });
});
