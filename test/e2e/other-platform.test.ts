/** On a platform without containers the program starts, lists its tools, and each says what to do. */

import { expect, test } from "vitest";
import { startMcpClient } from "../support/mcp/mcp-client.ts";

/** Runs before the program: the least that makes Node claim to be elsewhere. */
const SCRIPT = 'Object.defineProperty(process, "platform", { value: "darwin" })';
const ON_MACOS = `data:text/javascript,${encodeURIComponent(SCRIPT)}`;

test("a tool on another platform names the two ways on", async () => {
  const environment = { NODE_OPTIONS: `--import=${ON_MACOS}` };
  await using host = await startMcpClient(["--toolsets", "all"], environment);
  const { tools } = await host.client.listTools();
  expect(tools.map(({ name }) => name)).toContain("create_sandbox");
  expect(await host.call("create_sandbox", {})).toEqual({
    isError: true,
    text:
      "failed_precondition: sandboxes run on Linux only, this is darwin. Tell the user the two " +
      "ways on: set E2B_API_KEY to the key of an E2B-compatible service, or run `npx -y " +
      "sandbox-mcp serve` on a Linux machine or VM and set E2B_API_URL, E2B_SANDBOX_URL and " +
      "E2B_API_KEY to what it prints.",
    fields: {},
  });
});
