/**
 * Plays suites of the public clients against a service that speaks TLS, to clients that know a key
 * and a domain only: `node test/over-tls/main.ts [--all] [--runtime=runsc] [FILE...]`. With files,
 * by the releases of the lock file. Without, or with `--all`, by the oldest supported releases, those
 * of the lock file and the newest of the registries; then every client must be there, and its figures
 * are printed.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { z } from "zod";
import { installNpm, newestNpm, newestPython } from "../support/clients/newest-clients.ts";
import { makeCertificate } from "../support/network/certificate.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const VITEST = join(ROOT, "node_modules/vitest/vitest.mjs");
const NAMES = pathToFileURL(join(ROOT, "test/support/network/loopback-names.ts")).href;
const DOMAIN = "sandbox.localhost";

/** Those of clients; the others speak the wire themselves, or play with the domain. */
const SUITES = (
  "cli commands files git metadata pty python sandbox signing template-build template-clients " +
  "template-images " +
  "volumes watch"
).split(" ");
/** In node_modules. */
const LOCKED_NPM = ["2.45.0", "2.51.0"];
const OLDER_PYTHON = ["2.45.1", "2.55.1"];

/** Which releases play, for `test/support/clients/sdk.ts` and the suite of the Python package. */
async function clients(): Promise<Record<string, string>> {
  const [npm, python] = await Promise.all([newestNpm(), newestPython()]);
  const more = LOCKED_NPM.includes(npm) ? "" : `${npm}=${await installNpm(npm)}`;
  const pythons = [...new Set([...OLDER_PYTHON, python])];
  process.stdout.write(`newest: npm e2b ${npm}, PyPI e2b ${python}\n`);
  return { SDK_CLIENTS: "all", SDK_NPM: more, SDK_PYTHON: pythons.join(",") };
}

const report = z.object({
  testResults: z.array(
    z.object({
      name: z.string(),
      assertionResults: z.array(
        z.object({ ancestorTitles: z.array(z.string()), status: z.string() }),
      ),
    }),
  ),
});

/** Prints what became of the tests of each client; returns how many did not pass. */
async function printFigures(path: string): Promise<number> {
  const { testResults } = report.parse(JSON.parse(await readFile(path, "utf8")));
  const figures = new Map<string, Map<string, number>>();
  let rest = 0;
  for (const { name, assertionResults } of testResults) {
    for (const { ancestorTitles, status } of assertionResults) {
      const client = /e2b [\d.]+/.exec(ancestorTitles[0] ?? "")?.[0];
      const language = name.endsWith("python.test.ts") ? "PyPI" : "npm";
      const key = client === undefined ? name.replace(/^.*\//, "") : `${language} ${client}`;
      const row = figures.get(key) ?? new Map<string, number>();
      row.set(status, (row.get(status) ?? 0) + 1);
      figures.set(key, row);
      if (status !== "passed") rest += 1;
    }
  }
  for (const [key, row] of [...figures].toSorted(([left], [right]) => (left < right ? -1 : 1))) {
    const text = [...row].map(([status, amount]) => `${amount} ${status}`).join(", ");
    process.stdout.write(`${key}: ${text}\n`);
  }
  return rest;
}

const words = process.argv.slice(2);
const [runtime] = words.flatMap((word) => /^--runtime=(.+)$/.exec(word)?.slice(1) ?? []);
const named = words.filter((word) => !word.startsWith("--"));
const isWhole = named.length === 0 || words.includes("--all");
const names = named.length === 0 ? SUITES : named;
const files = names.map((name) => `test/e2e/sdk/${name}.test.ts`);
const level = ["--root", ROOT, "--config", "test/vitest.config.ts", "--project", "e2e"];

await using certificate = await makeCertificate([DOMAIN, `*.${DOMAIN}`]);
const folder = await mkdtemp(join(tmpdir(), "clients-tls-"));
try {
  const outcome = join(folder, "run.json");
  const reporters = ["--reporter=default", "--reporter=json", `--outputFile.json=${outcome}`];
  const run = spawn(process.execPath, [VITEST, "run", ...level, ...reporters, ...files], {
    cwd: ROOT,
    stdio: "inherit",
    env: {
      PATH: process.env["PATH"],
      HOME: process.env["HOME"],
      TMPDIR: tmpdir(),
      CLIENTS: "all",
      NODE_EXTRA_CA_CERTS: certificate.authorityPath,
      NODE_OPTIONS: `--import ${NAMES}`,
      SDK_TLS: dirname(certificate.authorityPath),
      ...(runtime !== undefined && { E2E_RUNTIME: runtime }),
      ...(isWhole && (await clients())),
    },
  });
  const [code] = await once(run, "exit");
  const rest = isWhole ? await printFigures(outcome) : 0;
  process.exitCode = code === 0 && rest === 0 ? 0 : 1;
} finally {
  await rm(folder, { recursive: true, force: true });
}
