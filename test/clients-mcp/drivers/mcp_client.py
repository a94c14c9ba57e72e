"""Driver of the package `mcp`: in the era that its mode names."""

import asyncio
import json
import sys

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client

from driver import plain, serve, to_reply

CALL_SECONDS = 120


class Adapter:
    def __init__(self, client):
        self.client = client
        self.protocol = client.protocol_version

    async def tools(self):
        return [plain(tool) for tool in (await self.client.list_tools()).tools]

    async def call(self, tool, arguments):
        progress = []

        async def on_progress(_progress, _total, message):
            progress.append(message or "")

        result = await self.client.call_tool(
            tool, arguments, read_timeout_seconds=CALL_SECONDS, progress_callback=on_progress
        )
        return to_reply(result, progress)

    async def resources(self):
        return [str(resource.uri) for resource in (await self.client.list_resources()).resources]

    async def read(self, uri):
        contents = plain(await self.client.read_resource(uri))["contents"]
        return "".join(part.get("text", "") for part in contents)


async def main():
    target = json.loads(sys.argv[1])
    mode = sys.argv[2]
    if target["transport"] == "stdio":
        server = StdioServerParameters(
            command=target["command"], args=target["args"], env=target["env"]
        )
        async with Client(server, mode=mode) as client:
            await serve(Adapter(client))
        return
    async with httpx2.AsyncClient(headers=target["headers"], timeout=CALL_SECONDS) as http:
        transport = streamable_http_client(target["url"], http_client=http)
        async with Client(transport, mode=mode) as client:
            await serve(Adapter(client))


asyncio.run(main())
