"""The loop of a driver: JSON lines ask an MCP client for one operation each, several at once."""

import asyncio
import json
import sys


def plain(value):
    """A model of either generation as plain JSON values, in the names of the wire."""
    if hasattr(value, "model_dump"):
        return value.model_dump(mode="json", by_alias=True, exclude_none=True)
    return value


def to_reply(result, progress):
    """A CallToolResult in the form that all drivers share."""
    result = plain(result)
    content = result.get("content", [])
    return {
        "isError": result.get("isError", False),
        "text": "\n".join(part["text"] for part in content if part["type"] == "text"),
        "images": [
            {"mimeType": part["mimeType"], "data": part["data"]}
            for part in content
            if part["type"] == "image"
        ],
        "kinds": [part["type"] for part in content],
        "fields": result.get("structuredContent") or {},
        "progress": progress,
    }


async def serve(client):
    """Until standard input ends. `client` has tools, call, resources and read."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=64 * 1024 * 1024)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    tasks = {}

    def say(message):
        sys.stdout.write(json.dumps(message) + "\n")
        sys.stdout.flush()

    async def run(request):
        try:
            operation = request["op"]
            if operation == "tools":
                result = await client.tools()
            elif operation == "resources":
                result = await client.resources()
            elif operation == "read":
                result = await client.read(request["uri"])
            else:
                result = await client.call(request["tool"], request["input"])
            say({"id": request["id"], "result": result})
        except asyncio.CancelledError:
            say({"id": request["id"], "cancelled": True})
        except BaseException as error:
            say({"id": request["id"], "error": f"{type(error).__name__}: {error}"})
        finally:
            tasks.pop(request["id"], None)

    say({"id": 0, "result": getattr(client, "protocol", "")})
    while line := await reader.readline():
        request = json.loads(line)
        if request["op"] == "cancel":
            tasks[request["target"]].cancel()
        else:
            tasks[request["id"]] = asyncio.create_task(run(request))
