"""Drives the Python SDK 1.x (`mcp.ClientSession`), which knows the legacy era only."""

from contextlib import AsyncExitStack
from typing import Any

import anyio
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from pydantic import AnyUrl

import python_driver as driver


NOTIFICATIONS = {
    "tools": types.ToolListChangedNotification,
    "prompts": types.PromptListChangedNotification,
    "resources": types.ResourceListChangedNotification,
}


async def session(command: dict[str, Any]) -> None:
    changes = driver.ListChanges()

    async def on_message(message: Any) -> None:
        if isinstance(message, types.ServerNotification):
            changes.note(NOTIFICATIONS, message.root)

    async def elicit(_context: Any, _params: Any) -> types.ElicitResult:
        return types.ElicitResult(action="accept", content=command["elicits"])

    async def sample(_context: Any, _params: Any) -> types.CreateMessageResult:
        content = types.TextContent(type="text", text=command["samples"])
        return types.CreateMessageResult(role="assistant", model="test", content=content)

    async with AsyncExitStack() as stack:
        if "command" in command:
            program, *args = command["command"]
            read, write = await stack.enter_async_context(
                stdio_client(StdioServerParameters(command=program, args=args))
            )
        else:
            read, write, _ = await stack.enter_async_context(streamable_http_client(command["url"]))
        options: dict[str, Any] = {}
        if "elicits" in command:
            options["elicitation_callback"] = elicit
        if "samples" in command:
            options["sampling_callback"] = sample
        client = await stack.enter_async_context(ClientSession(read, write, message_handler=on_message, **options))
        hello = await client.initialize()
        driver.answer(
            {
                "ok": {
                    "protocolVersion": hello.protocolVersion,
                    "server": hello.serverInfo.name,
                    "instructions": hello.instructions,
                }
            }
        )

        async def tools() -> Any:
            found, cursor = [], None
            while True:
                page = await client.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
                found += [driver.dump(tool) for tool in page.tools]
                if (cursor := page.nextCursor) is None:
                    return {"tools": found}

        async def call(name: str, arguments: dict[str, Any]) -> Any:
            return driver.dump(await client.call_tool(name, arguments))

        async def progress(name: str, arguments: dict[str, Any]) -> Any:
            seen = driver.Progress()
            result = await client.call_tool(name, arguments, progress_callback=seen.note)
            return {"result": driver.dump(result), "progress": seen.all}

        async def cancel(name: str, arguments: dict[str, Any], after: int) -> Any:
            # This SDK leaves the notification to its user.
            request = client._request_id
            with anyio.move_on_after(after / 1000) as scope:
                await client.call_tool(name, arguments)
            if scope.cancelled_caught:
                await client.send_notification(
                    types.ClientNotification(
                        types.CancelledNotification(
                            params=types.CancelledNotificationParams(requestId=request, reason="test")
                        )
                    )
                )
            return {"cancelled": scope.cancelled_caught}

        async def watch() -> Any:
            return {}

        async def ping() -> Any:
            return driver.dump(await client.send_ping())

        async def all_of(member: str, listing: Any) -> Any:
            found, cursor = [], None
            while True:
                page = await listing(params=types.PaginatedRequestParams(cursor=cursor))
                found += [driver.dump(entry) for entry in getattr(page, member)]
                if (cursor := page.nextCursor) is None:
                    return {member: found}

        async def prompts() -> Any:
            return await all_of("prompts", client.list_prompts)

        async def prompt(name: str, arguments: dict[str, str] | None = None) -> Any:
            return driver.dump(await client.get_prompt(name, arguments))

        async def resources() -> Any:
            return await all_of("resources", client.list_resources)

        async def templates() -> Any:
            return await all_of("resourceTemplates", client.list_resource_templates)

        async def read_resource(uri: str) -> Any:
            return driver.dump(await client.read_resource(AnyUrl(uri)))

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
                "read": read_resource,
                "complete": driver.completion(types, client),
            }
        )


driver.run(session)
