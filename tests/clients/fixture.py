"""A server on the Python SDK: with it the drivers are tested without Tamis."""

import anyio
from mcp.server.mcpserver import Context, MCPServer

server = MCPServer("fixture", instructions="A fixture")


@server.tool()
def echo(text: str) -> str:
    """Says what it is told."""
    return text


@server.tool()
async def slow(ms: int) -> str:
    """Answers late."""
    await anyio.sleep(ms / 1000)
    return "done"


@server.tool()
async def grow(ctx: Context) -> str:
    """Adds a tool."""
    server.add_tool(lambda: "new", name="grown", description="Was added")
    await ctx.session.send_tool_list_changed()
    await ctx.notify_tools_changed()
    return "grown"


server.run("stdio")
