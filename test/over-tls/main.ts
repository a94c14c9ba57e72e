/**
 * Plays suites of the public clients against a service that speaks TLS, to clients that know a key
 * and a domain only: `node test/over-tls/main.ts [FILE...]`. Without files, all that can be.
 */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { dirname, join, resolve } from "node:path";
import { pathToFileURL } from "node:url";
import { makeCertificate } from "../support/certificate.ts";

const ROOT = resolve(import.meta.dirname, "../..");
const VITEST = join(ROOT, "node_modules/vitest/vitest.mjs");
const NAMES = pathToFileURL(join(ROOT, "test/support/loopback-names.ts")).href;
const DOMAIN = "sandbox.localhost";

/** Those of clients; the others speak the wire themselves, or play with the domain. */
const SUITES = "cli commands files git metadata pty python sandbox signing watch".split(" ");

const named = process.argv.slice(2);
const names = named.length > 0 ? named : SUITES;
const files = names.map((name) => `test/e2e/sdk/${name}.test.ts`);
const level = ["--root", ROOT, "--config", "test/vitest.config.ts", "--project", "e2e"];

await using certificate = await makeCertificate([DOMAIN, `*.${DOMAIN}`]);
const run = spawn(process.execPath, [VITEST, "run", ...level, ...files], {
  cwd: ROOT,
  stdio: "inherit",
  env: {
    PATH: process.env["PATH"],
    HOME: process.env["HOME"],
    NODE_EXTRA_CA_CERTS: certificate.authorityPath,
    NODE_OPTIONS: `--import ${NAMES}`,
    SDK_TLS: dirname(certificate.authorityPath),
  },
});
const [code] = await once(run, "exit");
process.exitCode = code === 0 ? 0 : 1;
