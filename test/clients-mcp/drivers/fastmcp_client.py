"""Driver of the package `fastmcp`."""

import asyncio
import json
import sys

from fastmcp import Client
from fastmcp.client.transports import StdioTransport, StreamableHttpTransport

from driver import plain, serve, to_reply

CALL_SECONDS = 120


class Adapter:
    def __init__(self, client):
        self.client = client
        self.protocol = str(getattr(client, "protocol_version", ""))

    async def tools(self):
        return [plain(tool) for tool in await self.client.list_tools()]

    async def call(self, tool, arguments):
        progress = []

        async def on_progress(_progress, _total, message):
            progress.append(message or "")

        result = await self.client.call_tool_mcp(
            tool, arguments, progress_handler=on_progress, timeout=CALL_SECONDS
        )
        return to_reply(result, progress)

    async def resources(self):
        return [str(resource.uri) for resource in await self.client.list_resources()]

    async def read(self, uri):
        contents = [plain(part) for part in await self.client.read_resource(uri)]
        return "".join(part.get("text", "") for part in contents)


async def main():
    target = json.loads(sys.argv[1])
    if target["transport"] == "stdio":
        transport = StdioTransport(target["command"], target["args"], env=target["env"])
    else:
        transport = StreamableHttpTransport(target["url"], headers=target["headers"])
    async with Client(transport) as client:
        await serve(Adapter(client))


asyncio.run(main())
