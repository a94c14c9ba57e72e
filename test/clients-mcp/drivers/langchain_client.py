"""Driver of LangChain's adapters: every result also passes the formatters of three providers."""

import asyncio
import json
import sys

from langchain_anthropic.chat_models import _format_messages
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.utils.function_calling import convert_to_openai_tool
from langchain_google_genai._function_utils import convert_to_genai_function_declarations
from langchain_google_genai.chat_models import _parse_chat_history
from langchain_mcp_adapters.callbacks import Callbacks
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools
from langchain_openai.chat_models.base import (
    _construct_responses_api_input,
    _convert_message_to_dict,
)
from langchain_anthropic.chat_models import convert_to_anthropic_tool

from driver import plain, serve


def format_for_providers(call, message):
    """What each provider would be sent; @raises whatever a formatter raises."""
    history = [
        HumanMessage("go on"),
        AIMessage("", tool_calls=[{**call, "type": "tool_call"}]),
        message,
    ]
    _, anthropic = _format_messages(history, model=None)
    _, google = _parse_chat_history(history)
    sent = {
        "openai": [_convert_message_to_dict(part) for part in history],
        "openai-responses": _construct_responses_api_input(history),
        "anthropic": anthropic,
        "google": [plain(part) for part in google],
    }
    return {name: len(json.dumps(parts, default=str)) for name, parts in sent.items()}


class Adapter:
    def __init__(self, session, tools, progress):
        self.session = session
        self.by_name = {tool.name: tool for tool in tools}
        self.progress = progress
        self.calls = 0

    async def tools(self):
        tools = list(self.by_name.values())
        for tool in tools:
            convert_to_openai_tool(tool)
            convert_to_anthropic_tool(tool)
        convert_to_genai_function_declarations(tools)
        return [{"name": tool.name} for tool in tools]

    async def call(self, tool, arguments):
        self.calls += 1
        call = {"name": tool, "args": arguments, "id": f"call_{self.calls}"}
        self.progress.clear()
        message = await self.by_name[tool].ainvoke({**call, "type": "tool_call"})
        content = message.content
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        artifact = message.artifact or {}
        return {
            "isError": message.status == "error",
            "text": "\n".join(part["text"] for part in blocks if part["type"] == "text"),
            "images": [
                {"mimeType": part["mime_type"], "data": part["base64"]}
                for part in blocks
                if part["type"] == "image"
            ],
            "kinds": [part["type"] for part in blocks],
            "fields": artifact.get("structured_content", {}),
            "progress": list(self.progress),
            "formatted": format_for_providers(call, message),
        }

    async def resources(self):
        return [str(resource.uri) for resource in (await self.session.list_resources()).resources]

    async def read(self, uri):
        contents = plain(await self.session.read_resource(uri))["contents"]
        return "".join(part.get("text", "") for part in contents)


async def main():
    target = json.loads(sys.argv[1])
    kind = "streamable_http" if target["transport"] == "http" else "stdio"
    progress = []

    async def on_progress(_progress, _total, message, _context):
        progress.append(message or "")

    callbacks = Callbacks(on_progress=on_progress)
    client = MultiServerMCPClient({"sandbox": {**target, "transport": kind}}, callbacks=callbacks)
    async with client.session("sandbox") as session:
        tools = await load_mcp_tools(session, callbacks=callbacks, server_name="sandbox")
        await serve(Adapter(session, tools, progress))


asyncio.run(main())
