/** Hosts on the first client library, over stdio and HTTP; they know the older era only. */

import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ResourceUpdatedNotificationSchema } from "@modelcontextprotocol/sdk/types.js";
import { LOG_TEMPLATE, stdioCommand, textOf, toReply, type Host, type HostKind } from "./host.ts";

function asHost(client: Client): Host {
  const followers = new Map<string, (uri: string) => void>();
  client.setNotificationHandler(ResourceUpdatedNotificationSchema, ({ params }) => {
    for (const tell of followers.values()) tell(params.uri);
  });
  return {
    listTools: async () => (await client.listTools()).tools,
    async call(name, input, { onProgress, signal } = {}) {
      const settings = {
        ...(onProgress !== undefined && { onprogress: onProgress }),
        ...(signal !== undefined && { signal }),
      };
      return toReply(await client.callTool({ name, arguments: { ...input } }, undefined, settings));
    },
    listResources: async () => (await client.listResources()).resources.map(({ uri }) => uri),
    readResource: async (uri) => textOf((await client.readResource({ uri })).contents),
    async completeSandboxId(value) {
      const argument = { name: "sandbox_id", value };
      return (await client.complete({ ref: LOG_TEMPLATE, argument })).completion.values;
    },
    async follow(uri, onUpdate) {
      followers.set(uri, onUpdate);
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
      // oxlint-disable-next-line typescript/no-unsafe-type-assertion
      const transport = new StreamableHTTPClientTransport(url, {
        requestInit: { headers },
      }) as Parameters<Client["connect"]>[0];
      return connect(transport);
    },
  },
];
