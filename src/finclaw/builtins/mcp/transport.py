"""What all transports to a server share: its end is noticed, and one that sends too much is cut off."""

import asyncio
import logging
import re
from collections.abc import AsyncGenerator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Final

import anyio
import mcp_types as types
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

from finclaw.errors import ToolError

for _name in ("mcp", "client"):  # the SDK's loggers quote what servers send as it came; we tell of it in our own words
    logging.getLogger(_name).setLevel(logging.CRITICAL)

_STRAYS: Final = 2_000
"""Messages between two answers, such as news of progress. Whoever sends more has something else in mind."""
_MOST_VALUES: Final = 60_000
"""Values of one message, which are parsed within 100 ms: four megabytes of `[],[],[]` would take seconds."""
TOO_MANY_VALUES: Final = f"it sent a message of more than {_MOST_VALUES:,} values"
_LONG_NUMBER: Final = re.compile(rb"(?<![0-9])[0-9]{400}")


def has_too_many_values(message: bytes) -> bool:
    """Count a message's commas, and its lists and objects three times, in the bytes before anything parses them.

    Commas inside texts do not count. The parser itself limits how deep they are nested.
    """
    texts = message.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"', 4 * _MOST_VALUES)
    if len(texts) > 4 * _MOST_VALUES:  # each comma separates two texts at most
        return True
    outside = b" ".join(texts[::2])
    values = outside.count(b",") + 3 * (outside.count(b"[") + outside.count(b"{"))
    return values > _MOST_VALUES or _LONG_NUMBER.search(outside) is not None


class ServerLost(ToolError):
    """The connection is over; the words say why."""


class ConnectionEnd:
    """The end of a connection and its reason; setting it wakes the task that looks after the connection."""

    def __init__(self) -> None:
        self.reason = ""
        self.stirred = asyncio.Event()

    def end(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.stirred.set()


@asynccontextmanager
async def watch(
    transport: AbstractAsyncContextManager[TransportStreams], ending: ConnectionEnd
) -> AsyncGenerator[TransportStreams]:
    """The same streams, with a look at everything that comes in."""
    async with transport as (incoming, outgoing):
        passed_on, received = anyio.create_memory_object_stream[SessionMessage | Exception](0)

        async def pass_on() -> None:
            strays = 0
            async with passed_on:
                async for message in incoming:
                    strays = 0 if _is_answer(message) else strays + 1
                    if strays > _STRAYS:
                        return ending.end(f"it sent {strays:,} messages that nobody had asked for")
                    try:
                        await passed_on.send(message)
                    except anyio.BrokenResourceError:  # we have left, and it goes on talking
                        return
            ending.end("it ended the connection")

        async with anyio.create_task_group() as tasks:
            tasks.start_soon(pass_on)
            try:
                yield received, outgoing
            finally:
                tasks.cancel_scope.cancel()
                received.close()


def _is_answer(message: SessionMessage | Exception) -> bool:
    return isinstance(message, SessionMessage) and isinstance(
        message.message, types.JSONRPCResponse | types.JSONRPCError
    )
