/** Another MCP server beside the one of a world, on the same service and the same disk. */

import { join } from "node:path";
import { createSilentLog } from "../../../src/common/log.ts";
import { startMcpState, type McpState } from "../../../src/mcp/state.ts";
import { withoutMark } from "../marks.ts";
import { startMcpHost, type McpHost } from "./mcp-host.ts";
import type { McpWorld } from "./mcp-sandbox.ts";

export interface Server extends AsyncDisposable {
  readonly state: McpState;
  readonly host: McpHost;
  readonly ask: (tool: string, input: Readonly<Record<string, unknown>>) => Promise<string>;
  read(uri: string): Promise<string>;
}

/** The server and a host of its own. */
export async function startServer(world: Pick<McpWorld, "service" | "test">): Promise<Server> {
  await using stack = new AsyncDisposableStack();
  const state = stack.use(
    startMcpState({
      service: () => world.service,
      log: createSilentLog(),
      spoolFolder: join(world.test.home, "spool"),
      onExit: () => "leave",
    }),
  );
  const host = stack.use(await startMcpHost(state));
  const owned = stack.move();
  return {
    state,
    host,
    async ask(name, input) {
      const reply = await host.client.callTool({ name, arguments: { ...input } });
      return textOf(reply["content"]);
    },
    read: (uri) => readFrom(host, uri),
    [Symbol.asyncDispose]: () => owned.disposeAsync(),
  };
}

function textOf(content: unknown): string {
  const [part]: readonly unknown[] = Array.isArray(content) ? content : [];
  return typeof part === "object" && part !== null && "text" in part
    ? withoutMark(String(part.text))
    : "";
}

async function readFrom(host: McpHost, uri: string): Promise<string> {
  return textOf((await host.client.readResource({ uri })).contents);
}

/** The first group of a pattern in a reply. */
export function factOf(text: string, pattern: RegExp): string {
  return pattern.exec(text)?.[1] ?? `nothing like ${pattern} in ${text.slice(0, 300)}`;
}
