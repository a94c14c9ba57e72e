/** A scripted agent: it calls tools and acts on nothing but what they return. */

import type { TestClient } from "./mcp-client.ts";
import type { ToolReply } from "./tool-reply.ts";

export interface Agent {
  /** The reply of a tool, whatever it says. */
  ask(tool: string, input: Readonly<Record<string, unknown>>): Promise<ToolReply>;
  /** The text of a tool that must succeed. */
  do(tool: string, input: Readonly<Record<string, unknown>>): Promise<string>;
}

/** An agent on a client. */
export function createAgent(client: TestClient): Agent {
  return {
    ask: (tool, input) => client.call(tool, input),
    async do(tool, input) {
      const { isError, text } = await client.call(tool, input);
      if (isError) throw new Error(`${tool} failed: ${text}`);
      return text;
    },
  };
}

/** What a reply says in the place of the pattern's group. */
export function read(text: string, pattern: RegExp): string {
  const found = pattern.exec(text)?.[1];
  if (found === undefined) throw new Error(`${pattern} is not said in: ${text}`);
  return found;
}

/** The sandbox of a reply, as input of the next call. */
export function sandboxOf(text: string): { readonly sandbox_id: string } {
  return { sandbox_id: read(text, /sandbox_id"?: ?"?([a-z0-9]+)/) };
}
