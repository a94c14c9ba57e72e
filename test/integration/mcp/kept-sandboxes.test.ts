/** Sandboxes that are kept for later: replies tell what ends them all the same, and how to go on. */

import { expect, test } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { startMcpState, type OnExit } from "../../../src/mcp/state.ts";
import { TOOLS } from "../../../src/mcp/tools/index.ts";
import { startMcpHost } from "../../support/mcp/mcp-host.ts";
import { startMcpWorld, type McpWorld } from "../../support/mcp/mcp-sandbox.ts";
import { toReply } from "../../support/mcp/tool-reply.ts";

/** A server with these tools, or all, beside that of the world. */
async function startServer(world: McpWorld, onExit: OnExit, names?: readonly string[]) {
  await using stack = new AsyncDisposableStack();
  const state = stack.use(
    startMcpState({
      service: () => world.service,
      log: createSilentLog(),
      onExit: () => onExit,
    }),
  );
  const tools = TOOLS.filter(({ name }) => names?.includes(name) !== false);
  const host = stack.use(await startMcpHost(state, tools));
  const owned = stack.move();
  return {
    call: async (name: string, input: Record<string, unknown>) =>
      toReply(await host.client.callTool({ name, arguments: input })),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

const ENDS = "it ends with this session all the same, a snapshot does not";

test.for([
  { onExit: "kill", isTold: true },
  { onExit: "service_ends", isTold: true },
  { onExit: "leave", isTold: false },
] as const)("at an end with $onExit a kept sandbox is said to end: $isTold", async (row) => {
  await using world = await startMcpWorld();
  await using server = await startServer(world, row.onExit);
  const made = await server.call("create_sandbox", { on_timeout: "pause" });
  const sandbox = { sandbox_id: String(made.fields["sandbox_id"]) };
  expect(made.fields["note"]).toBe(row.isTold ? `at its timeout it is paused; ${ENDS}` : undefined);
  const resume = `connect_sandbox(sandbox_id="${sandbox.sandbox_id}") resumes it`;
  expect((await server.call("pause_sandbox", sandbox)).fields["next"]).toBe(
    row.isTold ? `${resume}; ${ENDS}` : resume,
  );
  const plain = await server.call("create_sandbox", {});
  expect(plain.fields["note"]).toBeUndefined();
});

test("a sandbox that another client made does not end with this server", async () => {
  await using world = await startMcpWorld();
  await using server = await startServer(world, "kill");
  const id = await world.createSandbox();
  expect((await server.call("pause_sandbox", { sandbox_id: id })).fields["next"]).toBe(
    `connect_sandbox(sandbox_id="${id}") resumes it`,
  );
});

test("replies name no tool that is not enabled", async () => {
  await using world = await startMcpWorld();
  const names = ["get_sandbox", "pause_sandbox", "snapshot", "build_template"];
  await using server = await startServer(world, "kill", names);
  const sandbox = { sandbox_id: await world.createSandbox() };
  const absent = { build_id: "absent/00000000-0000-4000-8000-000000000000" };
  const texts = [
    await server.call("snapshot", sandbox),
    await server.call("pause_sandbox", sandbox),
    await server.call("get_sandbox", sandbox),
    await server.call("build_template", absent),
  ].map(({ text }) => text);
  const others = TOOLS.filter(({ name }) => !names.includes(name)).map(({ name }) => name);
  expect(others.filter((name) => texts.join("\n").includes(name))).toEqual([]);
  expect(texts[2]).toContain("paused_because: a call paused it");
});
