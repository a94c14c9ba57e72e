/**
 * Plays the published clients of the code interpreter against a service with the template
 * code-interpreter: `node test/code-clients/main.ts`. The packages are obtained at the first run,
 * from npm and PyPI; the template is built in the home of the machine if it is missing.
 */

import { execFile, spawn } from "node:child_process";
import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { mkdir } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { promisify } from "node:util";
import { isThere } from "../../src/common/files.ts";
import { listeningUrl, startProgram } from "../support/program.ts";

const NPM_CLIENT = "@e2b/code-interpreter@2.8.0";
const PYTHON_CLIENT = "e2b-code-interpreter==2.11.5";
const HOME = process.env["CODE_HOME"] ?? "/var/lib/sandbox-mcp";
const BUILD_LIMIT_MS = 30 * 60_000;

const run = promisify(execFile);
const place = join(tmpdir(), "sandbox-mcp-code-clients");
const module = join(place, "node_modules/@e2b/code-interpreter/dist/index.mjs");
const python = join(place, "python/bin/python");

async function obtain(): Promise<void> {
  await mkdir(place, { recursive: true });
  const quiet = ["--no-audit", "--no-fund", "--silent"];
  if (!(await isThere(module)))
    await run("npm", ["install", "--prefix", place, ...quiet, NPM_CLIENT]);
  if (await isThere(python)) return;
  await run("python3", ["-m", "venv", join(place, "python")]);
  await run(python, ["-m", "pip", "install", "--quiet", PYTHON_CLIENT]);
}

interface Client {
  readonly name: string;
  readonly command: string;
  readonly words: readonly string[];
}

/** How a client failed, with its name; undefined after one that passed. */
async function play({ name, command, words }: Client, key: string): Promise<string | undefined> {
  const environment = { PATH: process.env["PATH"], HOME: process.env["HOME"], E2B_API_KEY: key };
  const child = spawn(command, words, { env: environment, stdio: "inherit" });
  const [code, signal] = await once(child, "exit");
  if (code === 0) return undefined;
  return `${name} failed: ${code === null ? `ended by ${signal}` : `exit status ${code}`}`;
}

await obtain();
const program = resolve(import.meta.dirname, "../../dist/main.js");
const pull = ["template", "pull", "code-interpreter", "--if-missing", "--home", HOME];
await run(process.execPath, [program, ...pull], { timeout: BUILD_LIMIT_MS });
const gallery = resolve(import.meta.dirname, "../../docs/gallery");
const apiKey = `e2b_${randomBytes(20).toString("hex")}`;
const flags = ["--port", "0", "--home", HOME, "--pool-template", "code-interpreter=1"];
await using serve = startProgram(["serve", ...flags], { SANDBOX_MCP_API_KEY: apiKey });
const url = await listeningUrl(serve);
const own = (file: string) => join(import.meta.dirname, file);
const clients: readonly Client[] = [
  {
    name: "the JavaScript client",
    command: process.execPath,
    words: [own("javascript.mjs"), module, url],
  },
  {
    name: "the analysis through MCP",
    command: process.execPath,
    words: [own("mcp.mjs"), program, HOME, gallery],
  },
  { name: "the Python client", command: python, words: [own("client.py"), url] },
];
const failures: string[] = [];
for (const client of clients) {
  const failure = await play(client, apiKey);
  if (failure !== undefined) failures.push(failure);
}
for (const failure of failures) process.stderr.write(`${failure}\n`);
process.exitCode = failures.length === 0 ? 0 : 1;
