"""Calls list-issues with the Python SDK of MCP (pip install "mcp>=2"): call.py URL [KEY]."""

import asyncio
import json
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def main(url: str, key: str | None = None) -> None:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with (
        httpx2.AsyncClient(headers=headers) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        print("tools:", *(tool.name for tool in (await client.list_tools()).tools))
        result = await client.call_tool("list-issues", {"owner": "XAMPPRocky", "repo": "octocrab"})
        text = result.content[0].text
        print(len(text), "bytes, the first of", len(json.loads(text)), "issues:")
        print(json.dumps(json.loads(text)[0]))


asyncio.run(main(*sys.argv[1:]))
