/** Sandboxes that are kept for later: replies tell what ends them all the same, and how to go on. */

import { expect, test } from "vitest";
import { createSilentLog } from "../../../src/common/log.ts";
import { startMcpState, type OnExit } from "../../../src/mcp/state.ts";
import { TOOLS } from "../../../src/mcp/tools/index.ts";
import { startMcpHost } from "../../support/mcp-host.ts";
import { startMcpWorld, toOutcome, type McpWorld } from "../../support/mcp-sandbox.ts";

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
      toOutcome(await host.client.callTool({ name, arguments: input })),
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
