"""A server of the official SDK that does everything a server should not.

python -m tests.mcp.hostile stdio NOTES       what it does is noted in the file NOTES
python -m tests.mcp.hostile http NOTES PORT
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from typing import Any

import anyio
import mcp_types as types
from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.stdio import stdio_server

RAW = os.dup(1)  # the SDK leads our standard output away
NOTHING: dict[str, Any] = {"type": "object", "properties": {}}
TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}

TOOLS: dict[str, dict[str, Any]] = {
    "echo": TEXT,
    "env": TEXT,
    "write": TEXT,  # notes it, and answers
    "write_and_die": TEXT,
    "write_and_hang": TEXT,
    "hang": NOTHING,  # but answers pings
    "freeze": NOTHING,  # answers nothing any more
    "die": NOTHING,
    "spawn": NOTHING,  # a child in its own group of processes
    "garbage": NOTHING,
    "huge": {"type": "object"},
    "tell_secret": TEXT,
    "malformed": NOTHING,
    "mixed": NOTHING,
    "structured": NOTHING,
    "fails": NOTHING,
    "grow": NOTHING,
    "bad name!": TEXT,
    "bad_name_": TEXT,
    "remote": {"type": "object", "properties": {"x": {"$ref": "http://127.0.0.1:9/x.json"}}},
    "runaway": {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}},
    "deep": {"type": "object", "properties": {"x": {}}},
    "wide": {"type": "object", "properties": {f"p{n}": {"type": "string"} for n in range(3000)}},
}
_inner = TOOLS["deep"]["properties"]["x"]
for _ in range(60):
    _inner["properties"] = {"x": {}}
    _inner = _inner["properties"]["x"]


def note(text: str) -> None:
    """Write down what was done, so that a test can count it."""
    with open(sys.argv[2], "a", encoding="utf-8") as notes:
        notes.write(f"{text}\n")


async def list_tools(context: Any, params: Any) -> types.ListToolsResult:
    """List everything, in two pages."""
    names = list(TOOLS)
    first = params is None or params.cursor is None
    page = names[:5] if first else names[5:]
    tools = [
        types.Tool(name=name, description=f"{name} it", input_schema=TOOLS[name]) for name in page
    ]
    return types.ListToolsResult(tools=tools, next_cursor="rest" if first else None)


async def call_tool(context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
    """Do what was asked, and worse."""
    arguments = params.arguments or {}
    text = str(arguments.get("text", ""))
    note(f"{params.name} {text}".strip())
    match params.name:
        case "env":
            return said(os.environ.get(text, "(not set)"))
        case "write_and_die" | "die":
            os._exit(3)
        case "write_and_hang" | "hang":
            await anyio.sleep(3600)
        case "freeze":
            time.sleep(3600)  # noqa: ASYNC251  (that is the point)
        case "spawn":
            child = subprocess.Popen(["sleep", "3600"], stdin=subprocess.DEVNULL)  # noqa: ASYNC220
            return said(f"{os.getpid()} {child.pid}")
        case "garbage":
            os.write(RAW, b"this is no message\n\xff\xfe\n{}\n[1]\n")
            print("what a server says of its troubles", file=sys.stderr, flush=True)
        case "tell_secret":
            print(
                "what a server says of its secret:", os.environ[text], file=sys.stderr, flush=True
            )
        case "malformed":
            answer = {"jsonrpc": "2.0", "id": context.request_id, "result": {"content": "none"}}
            os.write(RAW, json.dumps(answer).encode() + b"\n")
        case "huge":
            return said("x" * int(arguments["count"]))
        case "mixed":
            return types.CallToolResult(content=mixed())
        case "structured":
            return types.CallToolResult(content=[], structured_content={"price": 7})
        case "fails":
            return types.CallToolResult(content=said("no such order").content, is_error=True)
        case "grow":
            TOOLS[f"grown{len(TOOLS)}"] = TEXT
            await context.session.send_tool_list_changed()
    return said(text or "done")


def said(text: str) -> types.CallToolResult:
    """A result of one text."""
    return types.CallToolResult(content=[types.TextContent(text=text)])


def mixed() -> list[Any]:
    """One of everything that a result may hold."""
    return [
        types.TextContent(text="a text"),
        types.ImageContent(data="AAAA", mime_type="image/png"),
        types.ResourceLink(name="log", uri="file:///var/log/x", description="the log"),
    ]


async def over_stdio(server: Server) -> None:
    """Serve one client on the standard streams."""
    async with stdio_server() as (incoming, outgoing):
        options = server.create_initialization_options(NotificationOptions(tools_changed=True))
        await server.run(incoming, outgoing, options)


async def over_http(server: Server, port: int) -> None:
    """Serve clients over streamable HTTP; notes what they send as their key."""
    import uvicorn

    app = server.streamable_http_app()

    async def noting(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            keys = [value.decode() for name, value in scope["headers"] if name == b"x-key"]
            note(f"{scope['method']} {' '.join(keys)}".strip())
        await app(scope, receive, send)

    config = uvicorn.Config(noting, port=port, log_level="error", lifespan="on")
    await uvicorn.Server(config).serve()


def main() -> None:
    """Serve until told to stop."""
    server = Server("hostile", version="6.6.6", on_list_tools=list_tools, on_call_tool=call_tool)
    note(f"started {os.getpid()}")
    if sys.argv[1] == "http":
        anyio.run(over_http, server, int(sys.argv[3]))
    else:
        anyio.run(over_stdio, server)


if __name__ == "__main__":
    main()
