"""Drives the Python SDK 2.x (`mcp.Client`), which speaks both eras and begins with the modern one."""

from typing import Any

import anyio
from mcp import Client, StdioServerParameters, types
from mcp.client.subscriptions import ToolsListChanged

import python_driver as driver


async def session(command: dict[str, Any]) -> None:
    changes = driver.Changes()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            changes.note()

    if "command" in command:
        program, *args = command["command"]
        server: Any = StdioServerParameters(command=program, args=args)
    else:
        server = command["url"]

    async with (
        Client(server, mode=command.get("mode", "auto"), message_handler=on_message, cache=None) as client,
        anyio.create_task_group() as background,
    ):
        info = client.server_info
        driver.answer(
            {
                "ok": {
                    "protocolVersion": client.protocol_version,
                    "server": info.name if info else None,
                    "instructions": client.instructions,
                }
            }
        )

        async def tools() -> Any:
            found, cursor = [], None
            while True:
                page = await client.list_tools(cursor=cursor)
                found += [driver.dump(tool) for tool in page.tools]
                if (cursor := page.next_cursor) is None:
                    return {"tools": found}

        async def call(name: str, arguments: dict[str, Any]) -> Any:
            return driver.dump(await client.call_tool(name, arguments))

        async def cancel(name: str, arguments: dict[str, Any], after: int) -> Any:
            with anyio.move_on_after(after / 1000) as scope:
                await client.call_tool(name, arguments)
            return {"cancelled": scope.cancelled_caught}

        async def follow(*, task_status: anyio.abc.TaskStatus[None]) -> None:
            async with client.listen(tools_list_changed=True) as events:
                task_status.started()
                async for event in events:
                    if isinstance(event, ToolsListChanged):
                        changes.note()

        async def watch() -> Any:
            if client.protocol_version >= "2026-07-28":
                await background.start(follow)
            return {}

        async def ping() -> Any:
            return driver.dump(await client.send_ping())

        await driver.serve(
            {"list": tools, "call": call, "cancel": cancel, "watch": watch, "changed": changes.changed, "ping": ping}
        )
        background.cancel_scope.cancel()


driver.run(session)
