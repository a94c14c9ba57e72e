/**
 * `npm run nodes [-- WORDS]`: tests on the oldest supported Node and on the newest one, whichever the shell
 * has. The words are those of `npm run level`; without any, the levels that need no container are run.
 */

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { delimiter, join, resolve } from "node:path";
import { promisify } from "node:util";
import { makeTempFolder } from "../support/temp-folder.ts";

const VERSIONS = ["24.9.0", "latest"];
const ROOT = resolve(import.meta.dirname, "../..");
const INSTALL_LIMIT_MS = 300_000;
const QUICK = ["unit", "contract", "integration"].flatMap((name) => ["--project", name]);

const given = process.argv.slice(2);
const words = given.length > 0 ? given : QUICK;
for (const version of VERSIONS) {
  await using folder = await makeTempFolder();
  const options = ["--no-audit", "--no-fund", "--prefix", folder.path];
  await promisify(execFile)("npm", ["install", ...options, `node@${version}`], {
    timeout: INSTALL_LIMIT_MS,
  });
  const programs = join(folder.path, "node_modules/.bin");
  const vitest = join(ROOT, "node_modules/vitest/vitest.mjs");
  const config = ["--root", ROOT, "--config", join(ROOT, "test/vitest.config.ts")];
  const child = spawn(join(programs, "node"), [vitest, "run", ...config, ...words], {
    stdio: "inherit",
    env: { ...process.env, PATH: `${programs}${delimiter}${process.env["PATH"]}` },
  });
  const [code] = await once(child, "exit");
  process.stdout.write(`Node ${version}: ${code === 0 ? "ok" : "failed"}\n`);
  if (code !== 0) process.exitCode = 1;
}
