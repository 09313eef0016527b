"""A client on the Python SDK, version 2: `client.py MODE http URL PLAN` or `client.py MODE stdio PLAN
PROGRAM [ARGUMENT …]`.

MODE is `auto` or `legacy`. PLAN is a JSON array of calls, `[tool, arguments]` each. What was seen goes to
stdout as one JSON document; every client of this folder writes the same.
"""

import asyncio
import json
import sys
import warnings

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_types import ElicitResult

warnings.simplefilter("ignore")


def dumped(value):
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main() -> None:
    mode, wire, *rest = sys.argv[1:]
    if wire == "http":
        url, plan = rest
        server = url
    else:
        plan, program, *arguments = rest
        server = stdio_client(StdioServerParameters(command=program, args=arguments))
    asked, logs = [], []

    async def elicit(context, params):
        asked.append(params.message)
        return ElicitResult(action="accept", content={"username": "ada", "email": "ada@example.test"})

    async def log(params):
        logs.append([params.level, params.data])

    async with Client(server, mode=mode, elicitation_callback=elicit, logging_callback=log) as client:
        seen = {
            "protocol": client.protocol_version,
            "server": client.server_info.name,
            "tools": [tool.name for tool in (await client.list_tools()).tools],
            "calls": [],
        }
        if client.server_capabilities.logging:
            await client.set_logging_level("info")
        for tool, arguments in json.loads(plan):
            progress = []

            async def report(done, total, message):
                progress.append([done, total])

            asked.clear()
            logs.clear()
            result = dumped(await client.call_tool(tool, arguments, progress_callback=report))
            seen["calls"].append({"result": result, "progress": progress, "asked": list(asked), "logs": list(logs)})
        if client.server_capabilities.resources:
            seen["resource"] = dumped(await client.read_resource("test://static-text"))["contents"]
        if client.server_capabilities.prompts:
            prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
            seen["prompt"] = dumped(prompt)["messages"]
    print(json.dumps(seen))


asyncio.run(main())
