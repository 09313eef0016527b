"""The client of this folder on an older Python SDK, which knows no elicitation; its MODE is ignored."""

import asyncio
import json
import sys

from mcp import ClientSession
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamablehttp_client


def dumped(value):
    return value.model_dump(mode="json", by_alias=True, exclude_none=True)


async def main() -> None:
    _mode, wire, *rest = sys.argv[1:]
    if wire == "http":
        url, plan = rest
        transport = streamablehttp_client(url)
    else:
        plan, program, *arguments = rest
        transport = stdio_client(StdioServerParameters(command=program, args=arguments))
    logs = []

    async def log(params):
        logs.append([params.level, params.data])

    async with transport as streams, ClientSession(streams[0], streams[1], logging_callback=log) as client:
        initialized = await client.initialize()
        seen = {
            "protocol": initialized.protocolVersion,
            "server": initialized.serverInfo.name,
            "tools": [tool.name for tool in (await client.list_tools()).tools],
            "calls": [],
        }
        if initialized.capabilities.logging:
            await client.set_logging_level("info")
        for tool, arguments in json.loads(plan):
            progress = []

            async def report(done, total, message):
                progress.append([done, total])

            logs.clear()
            result = dumped(await client.call_tool(tool, arguments, progress_callback=report))
            seen["calls"].append({"result": result, "progress": progress, "asked": [], "logs": list(logs)})
        if initialized.capabilities.resources:
            seen["resource"] = dumped(await client.read_resource("test://static-text"))["contents"]
        if initialized.capabilities.prompts:
            prompt = await client.get_prompt("test_prompt_with_arguments", {"arg1": "a", "arg2": "b"})
            seen["prompt"] = dumped(prompt)["messages"]
    print(json.dumps(seen))


asyncio.run(main())
