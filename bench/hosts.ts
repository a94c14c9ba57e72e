/** MCP servers as a host starts them: ours and others, by the same client. */

import { spawn } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import type { TestClient } from "../test/support/mcp/mcp-client.ts";

const PROTOCOL = "2025-11-25";
/** Start and end of a server; one that takes longer is ended. */
const START_LIMIT_MS = 15_000;
const QUIET = { PATH: process.env["PATH"] ?? "", SANDBOX_MCP_LOG_LEVEL: "error" };

/** From the start of the program to its first answer to tools/list, in milliseconds. */
export async function startToList(words: readonly string[]): Promise<number> {
  const startedAt = performance.now();
  const child = spawn(process.execPath, [...words], {
    stdio: ["pipe", "pipe", "ignore"],
    env: { ...QUIET, HOME: "/nonexistent" },
  });
  const exit = once(child, "exit");
  const send = (message: object): void => {
    child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  };
  const clientInfo = { name: "bench", version: "1" };
  send({
    id: 1,
    method: "initialize",
    params: { protocolVersion: PROTOCOL, capabilities: {}, clientInfo },
  });
  send({ method: "notifications/initialized" });
  send({ id: 2, method: "tools/list" });
  const timer = setTimeout(() => child.kill("SIGKILL"), START_LIMIT_MS);
  let elapsed: number | undefined;
  for await (const line of createInterface({ input: child.stdout })) {
    if (!/"id":2\b/.test(line)) continue;
    elapsed = performance.now() - startedAt;
    break;
  }
  child.stdin.end();
  child.stdout.resume();
  await exit;
  clearTimeout(timer);
  if (elapsed === undefined) throw new Error(`${words[0]} did not answer`);
  return elapsed;
}

export interface PeerHost extends AsyncDisposable {
  call(name: string, input: Readonly<Record<string, unknown>>): Promise<void>;
}

/** Connects to another MCP server, a script with arguments. */
export async function openPeer(words: readonly string[]): Promise<PeerHost> {
  const transport = new StdioClientTransport({
    command: process.execPath,
    args: [...words],
    env: { ...QUIET, HOME: "/var/tmp/sandbox-mcp-bench" },
    stderr: "ignore",
  });
  const client = new Client({ name: "bench", version: "1.0.0" });
  await client.connect(transport);
  return {
    async call(name, input) {
      await client.callTool({ name, arguments: { ...input } });
    },
    async [Symbol.asyncDispose]() {
      await client.close();
    },
  };
}

/** A new sandbox by our own server. */
export async function createSandbox(client: TestClient, template = "base"): Promise<string> {
  const reply = await client.call("create_sandbox", { template });
  if (reply.isError) throw new Error(reply.text);
  return String(reply.fields["sandbox_id"]);
}

/** Runs a program in a sandbox; it must succeed. */
export async function runIn(
  client: TestClient,
  sandbox: string,
  [cmd, ...args]: readonly [string, ...string[]],
): Promise<void> {
  const reply = await client.call("run_process", { sandbox_id: sandbox, cmd, args });
  if (reply.isError) throw new Error(reply.text);
}

export async function killSandbox(client: TestClient, sandbox: string): Promise<void> {
  await client.call("kill_sandbox", { sandbox_id: sandbox });
}
