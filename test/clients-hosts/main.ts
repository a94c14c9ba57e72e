/**
 * Real hosts from the npm registry: each adds the server by the command of docs/hosts.md and reports
 * it connected, on stdio and HTTP; Claude Code and Codex then play the main job without a person,
 * for a scripted model on loopback: `node test/clients-hosts/main.ts [NAME...]`. A name is the
 * beginning of a host's; without names, all.
 */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { createSteps } from "../demo/steps.ts";
import { openPackageFolder } from "../support/clients/registry-packages.ts";
import { openTestHome } from "../support/home.ts";
import { startProgram } from "../support/program.ts";
import { startServe } from "../support/serve.ts";
import { makeTempFolder } from "../support/temp-folder.ts";
import { mainJob, scriptOf, type HostWords } from "./main-job.ts";
import { createPerson, documentedCommand, obtainHosts } from "./real-host.ts";
import { startScriptedModel } from "./scripted-model.ts";

/** A call that is not answered by then is given up by the host. */
const CALL_LIMIT_SECONDS = 15;
const START_LIMIT_SECONDS = 60;
/** What it has for the models that it knows; for any other it cuts each result at 10,000 bytes. */
const CODEX_OUTPUT_TOKENS = 10_000;
const PROMPT = "'Do the main job.'";

const names = process.argv.slice(2).map((name) => name.toLowerCase());
const isWanted = (name: string) =>
  names.length === 0 || names.some((start) => name.toLowerCase().startsWith(start));

const steps = createSteps();
await using packages = await openPackageFolder();
const hosts = await obtainHosts(packages.path);
await using folder = await makeTempFolder();
await using sandboxHome = await openTestHome();
await using leftovers = new AsyncDisposableStack();
// A host may kill its server, whose next start would remove what is left.
leftovers.defer(async () => {
  await startProgram(["gc", "--home", sandboxHome.path]).exited();
});
await using serve = await startServe(["--pool", "0"]);
await using model = await startScriptedModel();
const service = { url: serve.url, key: serve.apiKey };
const person = await createPerson({ folder: folder.path, hosts, sandboxHome: sandboxHome.path });

const claude = {
  ANTHROPIC_BASE_URL: model.url,
  ANTHROPIC_API_KEY: "scripted",
  CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC: "1",
  DISABLE_AUTOUPDATER: "1",
  // Tools that are searched for would need a second script.
  ENABLE_TOOL_SEARCH: "false",
  // The first request waits for the server, also on a machine under load.
  MCP_CONNECTION_NONBLOCKING: "0",
  MCP_CONNECT_TIMEOUT_MS: String(START_LIMIT_SECONDS * 1_000),
  MCP_TIMEOUT: String(START_LIMIT_SECONDS * 1_000),
  MCP_TOOL_TIMEOUT: String(CALL_LIMIT_SECONDS * 1_000),
};
const codex = { SCRIPTED_KEY: "scripted", SANDBOX_KEY: serve.apiKey };
await mkdir(join(person.home, ".codex"), { recursive: true });
await writeFile(
  join(person.home, ".codex/config.toml"),
  `model = "scripted"
model_provider = "loopback"
tool_output_token_limit = ${CODEX_OUTPUT_TOKENS}

[model_providers.loopback]
name = "loopback"
base_url = "${model.url}/v1"
wire_api = "responses"
env_key = "SCRIPTED_KEY"
`,
);

const CLAUDE_RUN = `claude -p ${PROMPT} --allowedTools mcp__sandbox`;
/** It begins its first turn without the tools of a server that is slow and not required. */
const CODEX_RUN =
  "codex exec --skip-git-repo-check --dangerously-bypass-approvals-and-sandbox " +
  "-c mcp_servers.sandbox.required=true " +
  `-c mcp_servers.sandbox.startup_timeout_sec=${START_LIMIT_SECONDS} ` +
  `-c mcp_servers.sandbox.tool_timeout_sec=${CALL_LIMIT_SECONDS} ${PROMPT}`;

/** Adds the server, and asks the host whether it is connected. */
async function connect(name: string, wanted: Connection): Promise<void> {
  if (!isWanted(name)) return;
  await steps.run(`${name}: adds the server and reports it connected`, async () => {
    const added = await person.run(wanted.add, wanted.environment);
    const listed = await person.run(wanted.list, wanted.environment);
    assert.match(listed, wanted.connected, added);
  });
}

interface Connection {
  readonly add: string;
  readonly list: string;
  readonly connected: RegExp;
  readonly environment?: Readonly<Record<string, string>>;
}

/** The main job, and what the host showed the model of each result. */
async function play(name: string, wanted: HostRun): Promise<void> {
  if (!isWanted(name)) return;
  const turns = mainJob(wanted.words);
  model.play(scriptOf(turns));
  const printed = await person.run(wanted.line, wanted.environment);
  const shown = model.shown();
  for (const [index, turn] of turns.entries()) {
    await steps.run(`${name}: ${turn.name}`, async () => {
      const result = shown[index];
      assert.ok(result, `the host did not come to this: ${printed.slice(-2_000)}`);
      turn.check(result);
    });
  }
}

interface HostRun {
  readonly line: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly words: HostWords;
}

/** It writes a large result to a file, and tells its model to read that. */
const CLAUDE_WORDS: HostWords = {
  timeout: /timed out/i,
  cut: /exceeds maximum allowed tokens\. Output has been saved to/,
  whole: (text) => readFileSync(/saved to (\S+\.txt)/.exec(text)?.[1] ?? "", "utf8"),
};
/** It leaves out the middle. */
const CODEX_WORDS: HostWords = { timeout: /timed out/i, cut: /truncated/, whole: (text) => text };

await connect("Claude Code, stdio", {
  add: await documentedCommand("claude mcp add sandbox -- "),
  list: "claude mcp list",
  connected: /sandbox: .*Connected/,
  environment: claude,
});
await play("Claude Code, stdio", {
  line: CLAUDE_RUN,
  environment: claude,
  words: CLAUDE_WORDS,
});
await connect("Claude Code, HTTP", {
  add: `claude mcp remove sandbox; ${await documentedCommand("claude mcp add --transport http", service)}`,
  list: "claude mcp list",
  connected: /sandbox: http.*Connected/,
  environment: claude,
});
await play("Claude Code, HTTP", { line: CLAUDE_RUN, environment: claude, words: CLAUDE_WORDS });
await connect("Gemini CLI, stdio", {
  add: await documentedCommand("gemini mcp add -s user sandbox npx"),
  list: "gemini mcp list",
  connected: /sandbox: .*Connected/,
});
await connect("Gemini CLI, HTTP", {
  add: `gemini mcp remove -s user sandbox; ${await documentedCommand("gemini mcp add -s user --transport http", service)}`,
  list: "gemini mcp list",
  connected: /sandbox: http.*Connected/,
});
await connect("Codex, stdio", {
  add: await documentedCommand("codex mcp add sandbox -- "),
  list: "codex mcp list",
  connected: /sandbox .*enabled/,
  environment: codex,
});
await play("Codex, stdio", { line: CODEX_RUN, environment: codex, words: CODEX_WORDS });
await connect("Codex, HTTP", {
  add: `codex mcp remove sandbox; ${await documentedCommand("codex mcp add sandbox --url", service)}`,
  list: "codex mcp list",
  connected: /sandbox .*enabled/,
  environment: codex,
});
await play("Codex, HTTP", { line: CODEX_RUN, environment: codex, words: CODEX_WORDS });
process.exitCode = steps.report("real hosts");
