/**
 * The official conformance suite on the built program: with its fixtures every required scenario
 * passes, and without them only those fail that need one.
 */

import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { openTestHome } from "../../support/home.ts";
import { startKeyedProxy } from "../../support/network/keyed-proxy.ts";
import { startProgram } from "../../support/program.ts";
import { startServe } from "../../support/serve.ts";

const SUITE = createRequire(import.meta.url).resolve(
  "@modelcontextprotocol/conformance/dist/index.js",
);
const BASELINE_HELD = "Baseline check passed: all failures are expected.";
const REVISIONS = [
  { revision: "2025-11-25", scenarios: 30 },
  { revision: "2026-07-28", scenarios: 37 },
];

/** What the suite printed at its end, and whether it was content. */
async function runSuite(url: string, revision: string, flags: readonly string[] = []) {
  const words = ["server", "--url", `${url}/mcp`, "--requirements", revision, ...flags];
  const run = promisify(execFile)(process.execPath, [SUITE, ...words], { timeout: 90_000 });
  const { code, stdout } = await run.then(
    (output) => ({ code: 0, stdout: output.stdout }),
    (error: { code?: unknown; stdout?: string }) => ({
      code: error.code,
      stdout: error.stdout ?? "",
    }),
  );
  const [, summary = ""] = stdout.split("=== SUMMARY ===");
  const unscored = new Set([...summary.matchAll(/^ +[✓✗] (\S+) \(/gm)].map(([, name]) => name));
  const rows = [...summary.matchAll(/^([✓✗]) (\S+): /gm)]
    .map(([, mark, name]) => ({ mark, name }))
    .filter(({ name }) => !unscored.has(name));
  return {
    code,
    passed: rows.filter(({ mark }) => mark === "✓").length,
    failed: rows.filter(({ mark }) => mark === "✗").map(({ name }) => name),
    summary,
  };
}

test("every required scenario passes with the fixtures", async () => {
  await using serve = await startServe(["--conformance", "--pool", "0"]);
  for (const { revision, scenarios } of REVISIONS) {
    const { code, passed, failed } = await runSuite(serve.url, revision);
    expect({ revision, code, passed, failed }).toEqual({
      revision,
      code: 0,
      passed: scenarios,
      failed: [],
    });
  }
});

test("the plain server fails only what needs a fixture", async () => {
  await using serve = await startServe(["--pool", "0"]);
  await using proxy = await startKeyedProxy(serve.url, serve.apiKey);
  for (const { revision } of REVISIONS) {
    const list = join(import.meta.dirname, `plain-${revision}.yaml`);
    const found = await runSuite(proxy.url, revision, ["--expected-failures", list]);
    expect(found).toMatchObject({ code: 0, summary: expect.stringContaining(BASELINE_HELD) });
  }
});

test("the fixtures are refused on an address that others reach", async () => {
  await using home = await openTestHome();
  const flags = ["--conformance", "--host", "0.0.0.0", "--api-key", "k-0123456789abcdef"];
  await using program = startProgram(["serve", "--port", "0", "--home", home.path, ...flags]);
  expect([await program.exited(), program.stderr()]).toEqual([
    64,
    expect.stringContaining("--conformance on 0.0.0.0, which is no loopback address"),
  ]);
});

test("without the flag nobody is let in without a key", async () => {
  await using serve = await startServe(["--pool", "0"]);
  const reply = await fetch(`${serve.url}/mcp`, { method: "POST", body: "{}" });
  expect([reply.status, reply.headers.get("www-authenticate")]).toEqual([401, "Bearer"]);
  // A host that looks for a login finds none, instead of a second refusal.
  for (const path of ["/.well-known/oauth-protected-resource/mcp", "/register"]) {
    const probe = await fetch(`${serve.url}${path}`);
    expect([probe.status, await probe.json()]).toEqual([404, { error: "not_found" }]);
  }
});
