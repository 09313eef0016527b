"""The same server on an older Python SDK, whose newest protocol revision is 2025-03-26.

It knows neither structured results nor elicitation.
"""

import asyncio
import json
import socket
import sys

import uvicorn
from mcp.server.fastmcp import Context, FastMCP, Image

PIXEL = bytes.fromhex("89504e470d0a1a0a")

server = FastMCP("peer", instructions="Ask in English.", log_level="ERROR")


@server.tool(description="Adds two whole numbers")
def add(a: int, b: int) -> str:
    return json.dumps({"sum": a + b}, separators=(",", ":"))


@server.tool()
def picture() -> list:
    return ["a pixel", Image(data=PIXEL, format="png")]


@server.tool()
async def work(ctx: Context) -> str:
    await ctx.report_progress(1, 2, "half")
    await ctx.info("halfway")
    await ctx.report_progress(2, 2, "done")
    return "worked"


@server.tool()
def fail() -> str:
    raise ValueError("out of order")


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
