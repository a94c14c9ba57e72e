/** Hosts on the second client library, in each era over stdio and HTTP. */

import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import type { TestServe } from "../serve.ts";
import { stdioCommand, type Host, type HostKind } from "./host.ts";
import { createLibraryHost } from "./library-host.ts";

/** `auto` asks a sibling process first, so the program runs twice side by side. */
const MODES = { legacy: "legacy", modern: { pin: "2026-07-28" }, auto: "auto" } as const;

function asHost(client: Client): Host {
  return createLibraryHost(client, {
    onUpdated(tell) {
      client.setNotificationHandler("notifications/resources/updated", ({ params }) =>
        tell(params.uri),
      );
    },
    callTool: (wish, settings) => client.callTool(wish, settings),
    async listen(uri) {
      if (client.getProtocolEra() !== "modern") return undefined;
      const listening = await client.listen({ resourceSubscriptions: [uri] });
      return { [Symbol.asyncDispose]: () => listening.close() };
    },
  });
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
