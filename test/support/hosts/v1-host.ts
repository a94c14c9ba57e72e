/** Hosts on the first client library, over stdio and HTTP; they know the older era only. */

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ResourceUpdatedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { stdioCommand, type Host, type HostKind } from "./host.ts";
import { createLibraryHost } from "./library-host.ts";

function asHost(client: Client): Host {
  return createLibraryHost(client, {
    onUpdated(tell) {
      client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) =>
        tell(params.uri),
      );
    },
    callTool: (wish, settings) => client.callTool(wish, undefined, settings),
  });
}

async function connect(transport: Parameters<Client["connect"]>[0]): Promise<Host> {
  const client = new Client({ name: "v1-host", version: "1.0.0" });
  await client.connect(transport);
  return asHost(client);
}

export const V1_HOSTS: readonly HostKind[] = [
  {
    name: "v1 client, stdio",
    start: async (serve) => connect(new StdioClientTransport(stdioCommand(serve))),
  },
  {
    name: "v1 client, HTTP",
    async start(serve) {
      const headers = { authorization: `Bearer ${serve.apiKey}` };
      const url = new URL(`${serve.url}/mcp`);
      // Its own type of a session id disagrees with its own interface under exact types.
      const transport = new StreamableHTTPClientTransport(url, {
        requestInit: { headers },
      }) as Parameters<Client["connect"]>[0];
      return connect(transport);
    },
  },
];
