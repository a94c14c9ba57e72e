/** Hosts on the second client library, in each era over stdio and HTTP. */

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import type { TestServe } from "../serve.ts";
import { LOG_TEMPLATE, stdioCommand, textOf, toReply, type Host, type HostKind } from "./host.ts";

/** `auto` asks a sibling process first, so the program runs twice side by side. */
const MODES = { legacy: "legacy", modern: { pin: "2026-07-28" }, auto: "auto" } as const;

function asHost(client: Client): Host {
  const followers = new Map<string, (uri: string) => void>();
  client.setNotificationHandler("notifications/resources/updated", ({ params }) => {
    for (const tell of followers.values()) tell(params.uri);
  });
  return {
    listTools: async () => (await client.listTools()).tools,
    async call(name, input, { onProgress, signal } = {}) {
      const settings = {
        ...(onProgress !== undefined && { onprogress: onProgress }),
        ...(signal !== undefined && { signal }),
      };
      return toReply(await client.callTool({ name, arguments: { ...input } }, settings));
    },
    listResources: async () => (await client.listResources()).resources.map(({ uri }) => uri),
    readResource: async (uri) => textOf((await client.readResource({ uri })).contents),
    async completeSandboxId(value) {
      const argument = { name: "sandbox_id", value };
      return (await client.complete({ ref: LOG_TEMPLATE, argument })).completion.values;
    },
    async follow(uri, onUpdate) {
      followers.set(uri, onUpdate);
      if (client.getProtocolEra() === "modern") {
        const listening = await client.listen({ resourceSubscriptions: [uri] });
        return { [Symbol.asyncDispose]: () => listening.close() };
      }
      await client.subscribeResource({ uri });
      return {
        async [Symbol.asyncDispose]() {
          await client.unsubscribeResource({ uri });
        },
      };
    },
    async [Symbol.asyncDispose]() {
      await client.close();
    },
  };
}

function transportOf(transport: "stdio" | "HTTP", serve: TestServe) {
  if (transport === "stdio") return new StdioClientTransport(stdioCommand(serve));
  const headers = { authorization: `Bearer ${serve.apiKey}` };
  return new StreamableHTTPClientTransport(new URL(`${serve.url}/mcp`), {
    requestInit: { headers },
  });
}

const KINDS = [
  { transport: "stdio", mode: "legacy" },
  { transport: "stdio", mode: "modern" },
  { transport: "stdio", mode: "auto" },
  { transport: "HTTP", mode: "legacy" },
  { transport: "HTTP", mode: "modern" },
] as const;

export const V2_HOSTS: readonly HostKind[] = KINDS.map(({ transport, mode }) => ({
  name: `v2 client, ${mode}, ${transport}`,
  async start(serve: TestServe) {
    const client = new Client(
      { name: "v2-host", version: "1.0.0" },
      { versionNegotiation: { mode: MODES[mode] } },
    );
    await client.connect(transportOf(transport, serve));
    return asHost(client);
  },
}));
