/** Hosts start several servers at once, and some read slowly: neither disturbs anybody. */

import { expect, test } from "vitest";
import { openTestHome } from "../support/home.ts";
import { createAgent, sandboxOf } from "../support/mcp/agent.ts";
import { startMcpClient } from "../support/mcp/mcp-client.ts";
import { startProgram } from "../support/program.ts";
import { startServe } from "../support/serve.ts";

test("three servers of one home work at once, and each ends its own sandboxes alone", async () => {
  await using home = await openTestHome();
  const start = async () => startMcpClient(["--home", home.path, "--pool", "0"]);
  const clients = await Promise.all([start(), start(), start()]);
  const [first, ...others] = await Promise.all(
    clients.map(async (client, index) => {
      const agent = createAgent(client);
      const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
      await agent.do("write_file", { ...sandbox, path: "number", content: String(index) });
      return { client, agent, sandbox };
    }),
  );
  await first?.client[Symbol.asyncDispose]();
  const read = others.map(({ agent, sandbox }) =>
    agent.do("read_file", { ...sandbox, path: "number" }),
  );
  expect(await Promise.all(read)).toEqual([
    expect.stringContaining("--- content\n1\n"),
    expect.stringContaining("--- content\n2\n"),
  ]);
  const foreign = await others[0]?.agent.ask("read_file", {
    ...others[1]?.sandbox,
    path: "number",
  });
  expect(foreign?.text).toMatch(/^not_found: sandbox \S+ does not exist/);
  await Promise.all(others.map(({ client }) => client[Symbol.asyncDispose]()));
});

test("settings of sandboxes that a running serve does not read are told", async () => {
  await using serve = await startServe(["--pool", "0"]);
  const words = ["stdio", "--home", serve.home, "--memory-mb", "1024"];
  const environment = { SANDBOX_MCP_REQUIRE_ISOLATION: "container" };
  await using program = startProgram(words, environment);
  const send = (message: object) =>
    program.child.stdin?.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const clientInfo = { name: "any", version: "1" };
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
  send({ id: 0, method: "initialize", params });
  send({ id: 1, method: "tools/call", params: { name: "list_sandboxes", arguments: {} } });
  program.stdout.resume();
  const told =
    /^sandbox-mcp: .*SANDBOX_MCP_REQUIRE_ISOLATION, --memory-mb: not used, sandboxes are those of the serve that runs$/m;
  await expect.poll(() => program.stderr(), { timeout: 20_000 }).toMatch(told);
});

const READS = 20;

test("a host that does not read its replies holds no process up", async () => {
  await using serve = await startServe(["--pool", "0"]);
  await using other = await startMcpClient(["--home", serve.home]);
  const agent = createAgent(other);
  const sandbox = sandboxOf(await agent.do("create_sandbox", {}));
  await agent.do("run_process", { ...sandbox, cmd: "head -c 200000 /dev/zero | tr '\\0' x > big" });
  await using deaf = startProgram(["stdio", "--home", serve.home]);
  const send = (message: object) =>
    deaf.child.stdin?.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  const call = (id: number, name: string, input: object) => {
    const params = { name, arguments: { ...sandbox, ...input }, _meta: { progressToken: id } };
    send({ id, method: "tools/call", params });
  };
  const clientInfo = { name: "deaf", version: "1" };
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo };
  send({ id: 0, method: "initialize", params });
  send({ method: "notifications/initialized" });
  // Replies of four megabytes are many times what the pipe to the host takes.
  for (let id = 1; id <= READS; id += 1) call(id, "read_file", { path: "big", limit: 200_000 });
  call(READS + 1, "run_process", { cmd: "head -c 30000000 /dev/zero | tr '\\0' y; touch done" });
  const stat = async () => (await agent.ask("stat_path", { ...sandbox, path: "done" })).isError;
  await expect.poll(stat, { timeout: 30_000 }).toBe(false);
  deaf.stdout.resume();
  deaf.child.stdin?.end();
  expect(await deaf.exited()).toBe(0);
  await agent.do("kill_sandbox", sandbox);
});
