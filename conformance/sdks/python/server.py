"""A small server on the Python SDK, version 2: `server.py stdio` or `server.py http`.

Over HTTP it takes a free port of loopback and prints `listening PORT`. All servers of this folder have
the same tools, so that one set of checks serves them all.
"""

import asyncio
import socket
import sys
import warnings
from typing import Annotated

import uvicorn
from mcp.server.mcpserver import Context, Elicit, ElicitationResult, Image, MCPServer, Resolve
from mcp.server.mcpserver.exceptions import ToolError
from pydantic import BaseModel

# Logging is deprecated in the newest revision, and still what older ones have.
warnings.simplefilter("ignore")

PIXEL = bytes.fromhex("89504e470d0a1a0a")

server = MCPServer(name="peer", version="1.2.3", instructions="Ask in English.", log_level="ERROR")


class Sum(BaseModel):
    sum: int


class Name(BaseModel):
    name: str


@server.tool(description="Adds two whole numbers")
def add(a: int, b: int) -> Sum:
    return Sum(sum=a + b)


@server.tool(structured_output=False)
def picture() -> list[str | Image]:
    return ["a pixel", Image(data=PIXEL, format="png")]


@server.tool(structured_output=False)
async def work(ctx: Context) -> str:
    await ctx.report_progress(1, 2, "half")
    await ctx.info("halfway")
    await ctx.report_progress(2, 2, "done")
    return "worked"


def who() -> Elicit[Name]:
    return Elicit("Who are you?", Name)


@server.tool(structured_output=False)
async def ask(name: Annotated[ElicitationResult[Name], Resolve(who)]) -> str:
    return f"hello {name.data.name}" if name.action == "accept" else name.action


@server.tool(structured_output=False)
def fail() -> str:
    raise ToolError("out of order")


@server.resource("note://one", name="one", mime_type="text/plain")
def note() -> str:
    return "first note"


def main() -> None:
    if sys.argv[1] == "stdio":
        server.run("stdio")
        return
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen()
    print("listening", listener.getsockname()[1], flush=True)
    app = server.streamable_http_app()
    asyncio.run(uvicorn.Server(uvicorn.Config(app, log_level="error")).serve(sockets=[listener]))


main()
