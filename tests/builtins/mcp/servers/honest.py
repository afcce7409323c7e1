"""A small server on the official SDK. Its argument is a file with the description of `greet`, read anew each time."""

import base64
import sys
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server

NAME = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 20}}, "required": ["name"]}
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}


async def list_tools(ctx: object, params: object) -> types.ListToolsResult:
    words = await anyio.Path(sys.argv[1]).read_text(encoding="utf-8")
    tools = [
        types.Tool(name="greet", description=words, input_schema=NAME),
        types.Tool(name="fail", description="Fails.", input_schema=NOTHING),
        types.Tool(name="mixed", description="Text, a picture and two resources.", input_schema=NOTHING),
        types.Tool(name="figures", description="Only structured content.", input_schema=NOTHING),
        types.Tool(name="odd.name/here", description="A name that models do not take.", input_schema=NOTHING),
    ]
    return types.ListToolsResult(tools=tools)


async def call_tool(ctx: object, params: types.CallToolRequestParams) -> types.CallToolResult:
    match params.name:
        case "greet":
            return _text(f"Hello, {(params.arguments or {})['name']}!")
        case "fail":
            return types.CallToolResult(content=_text("the disk is \u202efull").content, is_error=True)
        case "mixed":
            picture = types.ImageContent(type="image", data=base64.b64encode(b"x").decode(), mime_type="image/png")
            link = types.ResourceLink(type="resource_link", name="r", uri="file:///report.txt")
            inner = types.TextResourceContents(uri="memo://1", text="the memo")
            memo = types.EmbeddedResource(type="resource", resource=inner)
            return types.CallToolResult(content=[*_text("first").content, picture, link, memo])
        case "figures":
            return types.CallToolResult(content=[], structured_content={"price": 7})
        case _:
            return _text("fine")


def _text(text: str) -> types.CallToolResult:
    return types.CallToolResult(content=[types.TextContent(type="text", text=text)])


async def main() -> None:
    server = Server("honest", on_list_tools=list_tools, on_call_tool=call_tool)
    async with stdio_server() as (incoming, outgoing):
        await server.run(incoming, outgoing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
