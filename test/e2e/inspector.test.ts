/**
 * The Inspector's command line on the built program: lists without a complaint of its schema lint,
 * calls, reads and a load of calls, on stdio and HTTP, in each protocol era.
 */

import { execFile } from "node:child_process";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, test } from "vitest";
import { z } from "../../src/common/schema.ts";
import { stdioCommand } from "../support/hosts/host.ts";
import { startServe, type TestServe } from "../support/serve.ts";
import { makeTempFolder } from "../support/temp-folder.ts";

const PACKAGE = createRequire(import.meta.url).resolve(
  "@modelcontextprotocol/inspector/package.json",
);
const INSPECTOR = join(dirname(PACKAGE), "clients/launcher/build/index.js");
const ERAS = ["legacy", "modern"];
const LOAD_CALLS = 200;

let serve: TestServe;
let sandboxId: string;

beforeAll(async () => {
  serve = await startServe(["--toolsets", "all", "--pool", "0"]);
  const made = await callTool(targets().HTTP, "create_sandbox", []);
  sandboxId = z.object({ sandbox_id: z.string() }).parse(made.structuredContent).sandbox_id;
});
afterAll(async () => {
  await callTool(targets().HTTP, "kill_sandbox", [`sandbox_id=${sandboxId}`]);
  await serve[Symbol.asyncDispose]();
});

/** How the Inspector reaches the server. */
function targets() {
  const { command, args, env } = stdioCommand(serve);
  const settings = Object.entries(env).flatMap(([name, value]) => ["-e", `${name}=${value}`]);
  return {
    stdio: [...settings, command, ...args],
    HTTP: [
      "--transport",
      "http",
      `${serve.url}/mcp`,
      "--header",
      `Authorization: Bearer ${serve.apiKey}`,
    ],
  };
}

/** What it printed as JSON; a failure of any kind is an exit code other than 0. */
async function inspect(target: readonly string[], ...words: string[]): Promise<unknown> {
  await using home = await makeTempFolder();
  const { stdout } = await promisify(execFile)(
    process.execPath,
    [INSPECTOR, "--cli", ...target, "--format", "json", ...words],
    { env: { PATH: process.env["PATH"] ?? "", HOME: home.path }, timeout: 60_000 },
  );
  return JSON.parse(stdout);
}

const resultSchema = z.object({ result: z.record(z.string(), z.unknown()) });

async function callTool(target: readonly string[], tool: string, pairs: readonly string[]) {
  const given = pairs.flatMap((pair) => ["--tool-arg", pair]);
  const words = ["--method", "tools/call", "--tool-name", tool, ...given];
  return resultSchema.parse(await inspect(target, ...words)).result;
}

test.concurrent.for(
  (["stdio", "HTTP"] as const).flatMap((transport) => ERAS.map((era) => ({ transport, era }))),
)("tools are listed without a complaint: $transport, $era", async (row, { expect }) => {
  const words = ["--method", "tools/list", "--strict", "--protocol-era", row.era];
  const { result } = resultSchema.parse(await inspect(targets()[row.transport], ...words));
  expect(result["tools"]).toHaveLength(35);
});

test.concurrent.for(["stdio", "HTTP"] as const)(
  "a tool is called and a log is read: %s",
  async (transport, { expect }) => {
    const target = targets()[transport];
    const sandbox = `sandbox_id=${sandboxId}`;
    const ran = await callTool(target, "run_process", [sandbox, `cmd=echo over ${transport}`]);
    expect(JSON.stringify(ran["content"])).toContain(`over ${transport}\\n--- end`);
    const uri = `sandbox:///${sandboxId}/log`;
    const words = ["--method", "resources/read", "--uri", uri];
    const { result } = resultSchema.parse(await inspect(target, ...words));
    expect(JSON.stringify(result["contents"])).toContain(`over ${transport}\\n`);
  },
);

test.concurrent.for(["stdio", "HTTP"] as const)(
  "200 calls at a load end without an error: %s",
  async (transport, { expect }) => {
    const load = ["--load", "--load-requests", String(LOAD_CALLS), "--load-concurrency", "8"];
    const call = ["--method", "tools/call", "--tool-name", "get_sandbox"];
    const given = ["--tool-arg", `sandbox_id=${sandboxId}`];
    const report = await inspect(targets()[transport], ...call, ...given, ...load);
    expect(report).toMatchObject({
      result: { requests: LOAD_CALLS, ok: LOAD_CALLS, errors: 0, toolErrors: 0 },
    });
  },
);
