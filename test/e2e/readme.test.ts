/** The README's commands do what it says; a command that it names and this test does not fails. */

import { execFile } from "node:child_process";
import { readFile } from "node:fs/promises";
import { resolve } from "node:path";
import { promisify } from "node:util";
import { expect, test } from "vitest";
import { openTestHome } from "../support/home.ts";
import { isGvisor } from "../support/level.ts";
import { startProgram } from "../support/program.ts";

const README = resolve(import.meta.dirname, "../../README.md");
const CLIENT = resolve(import.meta.dirname, "../support/network/domain-client.ts");
const NAMES = resolve(import.meta.dirname, "../support/network/loopback-names.ts");

async function run(words: string[], home: string): Promise<{ code: unknown; output: string }> {
  await using program = startProgram([...words, "--home", home], {
    SANDBOX_MCP_LOG_LEVEL: "error",
  });
  program.child.stdin?.end();
  let output = "";
  for await (const chunk of program.stdout.setEncoding("utf8")) output += String(chunk);
  return { code: await program.exited(), output };
}

test("every command of the table runs", async () => {
  const text = await readFile(README, "utf8");
  const [, section = ""] = text.split("## Commands");
  const [table = ""] = section.split("\n## ");
  const named = [...table.matchAll(/`(?:sandbox-mcp )?([a-z]+ ?[a-z]*[^`]*)`/g)]
    .map(([, words = ""]) => words)
    .filter((words) => /^(stdio|serve|doctor|key|template|gc|manifest|trust)\b/.test(words));
  expect(named.toSorted()).toEqual([
    "doctor",
    "gc",
    "key create NAME [--team TEAM]",
    "key list [--team TEAM]",
    "key revoke NAME [--team TEAM]",
    "manifest",
    "serve",
    "serve --tls auto",
    "stdio",
    "template build [DIR] [-f FILE] [--name N]",
    "template export NAME FILE",
    "template import FILE [--name N]",
    "template list",
    "template pull IMAGE [--name N]",
    "template pull base [--if-missing]",
    "template pull code-interpreter [--if-missing]",
    "template remove NAME",
    "template show NAME",
    "trust",
    "trust install",
    "trust remove",
  ]);
});

test("the commands that end by themselves say what they did", async () => {
  await using home = await openTestHome();
  const report = await run(["doctor", "--json"], home.path);
  expect(report.code).toBe(0);
  expect(JSON.parse(report.output)).toMatchObject({
    isUsable: true,
    level: isGvisor ? "gvisor" : "userns-container",
  });
  const created = await run(["key", "create", "mine"], home.path);
  expect(created.output).toMatch(/^e2b_[0-9a-f]{40}\n$/);
  expect((await run(["key", "list"], home.path)).output).toMatch(/e2b_..….{4} .* mine\n$/);
  const foreign = ["key", "create", "theirs", "--team"];
  expect((await run([...foreign, "others"], home.path)).code).toBe(0);
  expect((await run(["key", "list"], home.path)).output).toMatch(
    / local {2}mine\n.* others {2}theirs\n$/,
  );
  expect((await run([...foreign, "no/team"], home.path)).code).toBe(64);
  await run(["key", "revoke", "theirs"], home.path);
  expect((await run(["key", "revoke", "mine"], home.path)).output).toMatch(/^revoked e2b_/);
  expect((await run(["key", "list"], home.path)).output).toBe("");
  expect((await run(["template", "list"], home.path)).output).toContain("base");
  const pulled = await run(["template", "pull", "base", "--if-missing"], home.path);
  expect(pulled).toEqual({ code: 0, output: "" });
  expect(await run(["gc"], home.path)).toEqual({ code: 0, output: "nothing to remove\n" });
  expect((await run(["trust"], home.path)).output).toMatch(/^-----BEGIN CERTIFICATE-----\n/);
  const manifest: unknown = JSON.parse((await run(["manifest"], home.path)).output);
  expect(manifest).toMatchObject({ version: 1, server: { name: "sandbox-mcp" } });
  expect((await run(["--version"], home.path)).output).toMatch(/^[0-9]+\.[0-9]+\.[0-9]+\n$/);
  expect((await run(["--help"], home.path)).output).toContain("Usage: sandbox-mcp");
});

/** A `serve` with the key that its first start prints, and what it printed once it listens. */
async function startServe(words: readonly string[], home: string) {
  const serve = startProgram(["serve", "--port", "0", "--home", home, ...words]);
  let output = "";
  serve.stdout.setEncoding("utf8").on("data", (text: string) => {
    output += text;
  });
  const isReady = words.length === 0 ? /listening on http/ : /SSL_CERT_FILE=.*\n/;
  await expect.poll(() => output, { timeout: 30_000 }).toMatch(isReady);
  const key = /shown once: (e2b_[0-9a-f]{40})/.exec(serve.stderr())?.[1] ?? "";
  return { output, key, [Symbol.asyncDispose]: () => serve[Symbol.asyncDispose]() };
}

/** The variables that the lines beginning with `export` set. */
function readExports(output: string): Record<string, string> {
  const lines = output.split("\n").filter((line) => line.startsWith("export "));
  const pairs = lines.flatMap((line) => line.split(" ").slice(1));
  return Object.fromEntries(pairs.map((pair) => pair.split("=", 2)));
}

test("a client works with a key and the lines that serve --tls auto prints", async () => {
  const readme = await readFile(README, "utf8");
  const [, section = ""] = readme.split("## E2B clients");
  expect(section.indexOf("--tls auto")).toBeLessThan(section.indexOf("E2B_API_URL"));
  await using home = await openTestHome();
  await using serve = await startServe(["--tls", "auto"], home.path);
  const lines = readExports(serve.output);
  const path = `${home.path}/ca-sandbox.localhost.pem`;
  const domain = lines["E2B_DOMAIN"] ?? "";
  expect(lines).toEqual({ E2B_DOMAIN: domain, NODE_EXTRA_CA_CERTS: path, SSL_CERT_FILE: path });
  const environment = { ...lines, E2B_API_KEY: serve.key };
  const { stdout } = await promisify(execFile)(process.execPath, ["--import", NAMES, CLIENT], {
    env: environment,
  });
  expect(JSON.parse(stdout)).toMatchObject({
    stdout: "over TLS\n",
    scheme: "https:",
    killed: true,
  });
  const [name = "", port] = domain.split(":");
  const curl = ["--silent", "--resolve", `api.${name}:${port}:127.0.0.1`];
  const asked = [`https://api.${domain}/v2/sandboxes`, "--header", `X-API-Key: ${serve.key}`];
  const listed = await promisify(execFile)("curl", [...curl, ...asked], { env: lines });
  expect(JSON.parse(listed.stdout)).toEqual([]);
});

test("the E2B client example works with the key that the first serve prints", async () => {
  await using home = await openTestHome();
  await using serve = await startServe([], home.path);
  const { output, key } = serve;
  const url = /listening on (\S+)/.exec(output)?.[1] ?? "";
  const list = await fetch(`${url}/v2/sandboxes`, { headers: { "X-API-Key": key } });
  expect([list.status, await list.json()]).toEqual([200, []]);
});
