"""Calls list-issues with the MCP Python SDK (pip install "mcp>=2"): call.py URL [KEY]."""

import asyncio
import sys

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client


async def main(url: str, key: str | None = None) -> None:
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    async with httpx2.AsyncClient(headers=headers) as http, Client(streamable_http_client(url, http_client=http)) as client:
        print(*(tool.name for tool in (await client.list_tools()).tools))
        result = await client.call_tool("list-issues", {"owner": "XAMPPRocky", "repo": "octocrab"})
        print(result.content[0].text)


asyncio.run(main(*sys.argv[1:]))
