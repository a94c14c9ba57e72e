/** A scripted agent on a plain stdio server of its own. */

import { createAgent, read, type Agent } from "./agent.ts";
import { startMcpClient } from "./mcp-client.ts";

export interface AgentSession extends AsyncDisposable {
  readonly agent: Agent;
}

/** An agent whose sandboxes end with it. */
export async function startAgentSession(
  home: string,
  environment: Readonly<Record<string, string>> = {},
): Promise<AgentSession> {
  await using stack = new AsyncDisposableStack();
  const flags = ["--toolsets", "all", "--pool", "0", "--home", home];
  const client = stack.use(await startMcpClient(flags, environment));
  const owned = stack.move();
  return { agent: createAgent(client), [Symbol.asyncDispose]: () => owned.disposeAsync() };
}

/** Every reply about a command until its end, however often its output must be asked for. */
export async function finish(agent: Agent, started: string, sandbox: object): Promise<string[]> {
  let text = started;
  const replies = [text];
  for (let turn = 0; turn < 30 && text.includes("status: running"); turn += 1) {
    const input = {
      ...sandbox,
      process_id: read(text, /process_id: (p_\d+)/),
      cursor: Number(read(text, /next_cursor: (\d+)/)),
      wait_seconds: 2,
    };
    text = await agent.do("get_process_output", input);
    replies.push(text);
  }
  return replies;
}
