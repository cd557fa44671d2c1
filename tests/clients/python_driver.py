"""The line protocol of the Python drivers; see README.md."""

import json
import sys
from collections.abc import Awaitable, Callable
from typing import Any

import anyio

Handlers = dict[str, Callable[..., Awaitable[Any]]]


def answer(value: dict[str, Any]) -> None:
    """Writes one answer."""
    sys.stdout.write(json.dumps(value) + "\n")
    sys.stdout.flush()


def failure(error: BaseException) -> dict[str, Any]:
    """An answer that describes an error; of a group, its first."""
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    data = getattr(error, "error", None)
    return {
        "error": {
            "kind": type(error).__name__,
            "code": getattr(data, "code", None),
            "message": getattr(data, "message", str(error)),
            "data": getattr(data, "data", None),
        }
    }


async def read() -> dict[str, Any] | None:
    """The next command; none at the end of input."""
    line = await anyio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True)
    return json.loads(line) if line.strip() else None


async def serve(handlers: Handlers) -> None:
    """Answers commands until the input ends."""
    while (command := await read()) is not None:
        op = command.pop("op")
        try:
            answer({"ok": await handlers[op](**command)})
        except Exception as error:
            answer(failure(error))


def run(session: Callable[[dict[str, Any]], Awaitable[None]]) -> None:
    """Reads the `connect` command and hands it over; an error before its answer is the answer."""

    async def main() -> None:
        command = await read()
        if command is None:
            return
        try:
            await session(command)
        except Exception as error:
            answer(failure(error))

    anyio.run(main)


class Changes:
    """Counts notifications that a list has changed."""

    def __init__(self) -> None:
        self.event = anyio.Event()

    def note(self) -> None:
        self.event.set()

    async def changed(self, timeout: float) -> dict[str, bool]:
        with anyio.move_on_after(timeout) as scope:
            await self.event.wait()
        self.event = anyio.Event()
        return {"changed": not scope.cancelled_caught}


class ListChanges:
    """Counts the notifications of each list."""

    def __init__(self) -> None:
        self.lists = {"tools": Changes(), "prompts": Changes(), "resources": Changes()}

    def note(self, kinds: dict[str, type], message: Any) -> None:
        """Notes a message of one of these types."""
        for name, kind in kinds.items():
            if isinstance(message, kind):
                self.lists[name].note()

    async def changed(self, timeout: float, list: str = "tools") -> dict[str, bool]:
        return await self.lists[list].changed(timeout)


class Progress:
    """Collects the progress of a call."""

    def __init__(self) -> None:
        self.all: list[dict[str, Any]] = []

    async def note(self, progress: float, total: float | None, message: str | None) -> None:
        each = {"progress": progress, "total": total, "message": message}
        self.all.append({name: value for name, value in each.items() if value is not None})


def dump(model: Any) -> Any:
    """A model as it was on the wire."""
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)


def completion(types: Any, client: Any) -> Callable[..., Awaitable[Any]]:
    """The handler of `complete`, with the types of an SDK and its client."""

    async def complete(ref: dict[str, str], argument: dict[str, str]) -> Any:
        kind = types.PromptReference if ref["type"] == "ref/prompt" else types.ResourceTemplateReference
        return dump(await client.complete(kind.model_validate(ref), argument))

    return complete
