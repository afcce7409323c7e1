"""Pipe transport to an MCP server that we start: lines in and out, with limits; its process tree is killed with it."""

import asyncio
import logging
from asyncio.subprocess import Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, cast

import anyio
import mcp_types as types
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

from finclaw.builtins.mcp.transport import TOO_MANY_VALUES, ConnectionEnd, has_too_many_values
from finclaw.redaction import hide_and_cut
from finclaw.redaction.clean import clean
from finclaw.redaction.redact import redact_for_display
from finclaw.tools.process.program import Program

_GARBAGE: Final = 1_000
"""Lines that are no messages, and are skipped: some programs greet the world on their standard output."""
_COMPLAINTS: Final = 500
"""Lines of its standard error that are logged, each cut; the rest is read and forgotten."""


@asynccontextmanager
async def program(
    command: Sequence[str], environment: Mapping[str, str], largest: int, ending: ConnectionEnd, logger: logging.Logger
) -> AsyncGenerator[TransportStreams]:
    """Raises OSError when it cannot be started."""
    started = await Program.start(command, environment, largest)
    process = started.process
    try:
        heard, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, to_say = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_listen, process, heard, largest, ending, logger)
            tasks.start_soon(_say, process, to_say, ending)
            tasks.start_soon(_log_complaints, process, logger)
            tasks.start_soon(started.watch)
            try:
                yield incoming, outgoing
            finally:
                tasks.cancel_scope.cancel()
                for stream in (heard, incoming, outgoing, to_say):
                    stream.close()
    finally:
        await started.end()


async def _listen(
    process: Process,
    heard: ObjectSendStream[SessionMessage | Exception],
    largest: int,
    ending: ConnectionEnd,
    logger: logging.Logger,
) -> None:
    lines = cast("asyncio.StreamReader", process.stdout)
    garbage = 0
    async with heard:
        while garbage <= _GARBAGE:
            try:
                line = await lines.readline()
            except ValueError:
                return ending.end(f"it sent a message of more than {largest:,} bytes")
            if not line:
                return
            if has_too_many_values(line):
                return ending.end(TOO_MANY_VALUES)
            message = _read(line)
            if message is None:
                if line.strip() and not garbage:
                    logger.info("wrote a line that is no message: %s", _printable_line(line))
                garbage += bool(line.strip())
                continue
            try:
                await heard.send(message)
            except anyio.BrokenResourceError:  # we have left, and it goes on talking
                return
    ending.end(f"it wrote {garbage:,} lines to its standard output that are no messages")


def _read(line: bytes) -> SessionMessage | None:
    try:
        return SessionMessage(types.jsonrpc_message_adapter.validate_json(line, by_name=False))
    except (ValueError, RecursionError):
        return None


async def _say(process: Process, to_say: ObjectReceiveStream[SessionMessage], ending: ConnectionEnd) -> None:
    pipe = cast("asyncio.StreamWriter", process.stdin)
    async with to_say:
        async for message in to_say:
            try:
                pipe.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await pipe.drain()
            except OSError:
                return ending.end("it closed its standard input")


def _printable_line(line: bytes) -> str:
    # Secrets before the cut: the log takes them out too, but would not know half of one.
    return redact_for_display(hide_and_cut(clean(line.decode("utf-8", "replace")), 2_000)).strip()[:300]


async def _log_complaints(process: Process, logger: logging.Logger) -> None:
    pipe = cast("asyncio.StreamReader", process.stderr)
    left = _COMPLAINTS
    while chunk := await pipe.read(16_384):
        lines = chunk.splitlines() if left else []
        for line in lines[:left]:
            logger.info("says: %s", _printable_line(line))
        left -= min(left, len(lines))
