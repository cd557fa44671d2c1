"""Drives the Python SDK 2.x (`mcp.Client`), which speaks both eras and begins with the modern one."""

from typing import Any

import anyio
from mcp import Client, StdioServerParameters, types
from mcp.client.subscriptions import PromptsListChanged, ResourcesListChanged, ToolsListChanged

import python_driver as driver


NOTIFICATIONS = {
    "tools": types.ToolListChangedNotification,
    "prompts": types.PromptListChangedNotification,
    "resources": types.ResourceListChangedNotification,
}
EVENTS = {"tools": ToolsListChanged, "prompts": PromptsListChanged, "resources": ResourcesListChanged}


async def session(command: dict[str, Any]) -> None:
    changes = driver.ListChanges()

    async def on_message(message: Any) -> None:
        changes.note(NOTIFICATIONS, message)

    if "command" in command:
        program, *args = command["command"]
        server: Any = StdioServerParameters(command=program, args=args)
    else:
        server = command["url"]

    async def elicit(_context: Any, _params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content=command["elicits"])

    options: dict[str, Any] = {"message_handler": on_message, "cache": None}
    if "elicits" in command:
        options["elicitation_callback"] = elicit

    async with (
        Client(server, mode=command.get("mode", "auto"), **options) as client,
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

        async def progress(name: str, arguments: dict[str, Any]) -> Any:
            seen = driver.Progress()
            result = await client.call_tool(name, arguments, progress_callback=seen.note)
            return {"result": driver.dump(result), "progress": seen.all}

        async def cancel(name: str, arguments: dict[str, Any], after: int) -> Any:
            with anyio.move_on_after(after / 1000) as scope:
                await client.call_tool(name, arguments)
            return {"cancelled": scope.cancelled_caught}

        async def follow(*, task_status: anyio.abc.TaskStatus[None]) -> None:
            filters = {"tools_list_changed": True, "prompts_list_changed": True, "resources_list_changed": True}
            async with client.listen(**filters) as events:
                task_status.started()
                async for event in events:
                    changes.note(EVENTS, event)

        async def watch() -> Any:
            if client.protocol_version >= "2026-07-28":
                await background.start(follow)
            return {}

        async def ping() -> Any:
            return driver.dump(await client.send_ping())

        async def all_of(member: str, field: str, listing: Any) -> Any:
            found, cursor = [], None
            while True:
                page = await listing(cursor=cursor)
                found += [driver.dump(entry) for entry in getattr(page, field)]
                if (cursor := page.next_cursor) is None:
                    return {member: found}

        async def prompts() -> Any:
            return await all_of("prompts", "prompts", client.list_prompts)

        async def prompt(name: str, arguments: dict[str, str] | None = None) -> Any:
            return driver.dump(await client.get_prompt(name, arguments))

        async def resources() -> Any:
            return await all_of("resources", "resources", client.list_resources)

        async def templates() -> Any:
            return await all_of("resourceTemplates", "resource_templates", client.list_resource_templates)

        async def read(uri: str) -> Any:
            return driver.dump(await client.read_resource(uri))

        await driver.serve(
            {
                "list": tools,
                "call": call,
                "progress": progress,
                "cancel": cancel,
                "watch": watch,
                "changed": changes.changed,
                "ping": ping,
                "prompts": prompts,
                "prompt": prompt,
                "resources": resources,
                "templates": templates,
                "read": read,
                "complete": driver.completion(types, client),
            }
        )
        background.cancel_scope.cancel()


driver.run(session)
