"""A server as a program of ours: its lines in and out, with limits, and its whole family ended with it."""

import asyncio
import logging
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Final, cast

import anyio
import mcp_types as types
from anyio.abc import ObjectReceiveStream, ObjectSendStream
from mcp.client._transport import TransportStreams
from mcp.shared.message import SessionMessage

from finclaw.builtins.mcp.wire import Ending
from finclaw.tools.family import end_relatives, relatives
from finclaw.tools.guard.clean import clean
from finclaw.tools.guard.told import without_secrets

_GARBAGE: Final = 1_000
"""Lines that are no messages, and are skipped: some programs greet the world on their standard output."""
_LEAVE: Final = 0.4
"""Seconds to leave by itself when its input is closed, and again when it is asked to."""
_COMPLAINTS: Final = 500
"""Lines of its standard error that are logged, each cut; the rest is read and forgotten."""


@asynccontextmanager
async def program(
    command: Sequence[str], environment: Mapping[str, str], largest: int, ending: Ending, logger: logging.Logger
) -> AsyncGenerator[TransportStreams]:
    """Raises OSError when it cannot be started."""
    # A session of its own: what it starts in turn can be ended with it, and no Ctrl-C of ours reaches it.
    process = await asyncio.create_subprocess_exec(
        *command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment, start_new_session=True, limit=largest
    )
    try:
        heard, incoming = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        outgoing, to_say = anyio.create_memory_object_stream[SessionMessage](0)
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(_listen, process, heard, largest, ending, logger)
            tasks.start_soon(_say, process, to_say, ending)
            tasks.start_soon(_log_complaints, process, logger)
            try:
                yield incoming, outgoing
            finally:
                tasks.cancel_scope.cancel()
                for stream in (heard, incoming, outgoing, to_say):
                    stream.close()
    finally:
        await _end(process)


async def _listen(
    process: Process,
    heard: ObjectSendStream[SessionMessage | Exception],
    largest: int,
    ending: Ending,
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
            message = _read(line)
            if message is None:
                if line.strip() and not garbage:
                    logger.info("wrote a line that is no message: %s", _shown(line))
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


async def _say(process: Process, to_say: ObjectReceiveStream[SessionMessage], ending: Ending) -> None:
    pipe = cast("asyncio.StreamWriter", process.stdin)
    async with to_say:
        async for message in to_say:
            try:
                pipe.write(message.message.model_dump_json(by_alias=True, exclude_unset=True).encode() + b"\n")
                await pipe.drain()
            except OSError:
                return ending.end("it closed its standard input")


def _shown(line: bytes) -> str:
    # Secrets before the cut: the log takes them out too, but would not know half of one.
    return without_secrets(clean(line[:2_000].decode("utf-8", "replace"))).strip()[:300]


async def _log_complaints(process: Process, logger: logging.Logger) -> None:
    pipe = cast("asyncio.StreamReader", process.stderr)
    left = _COMPLAINTS
    while chunk := await pipe.read(16_384):
        lines = chunk.splitlines() if left else []
        for line in lines[:left]:
            logger.info("says: %s", _shown(line))
        left -= min(left, len(lines))


# ── its end ─────────────────────────────────────────────────────────────────────────────────────────────────


async def _end(process: Process) -> None:
    """Asked, then told, then made to. Whatever becomes of the one who waits here, nothing of it lives on."""
    fled = relatives(process.pid)  # into sessions of their own, where no signal to its group reaches them
    try:
        with suppress(OSError):
            cast("asyncio.StreamWriter", process.stdin).close()
        if not await _has_left(process):
            _signal(process, signal.SIGTERM)
            await _has_left(process)
    finally:
        _signal(process, signal.SIGKILL)  # also to what it has left behind
        end_relatives(fled)
        await asyncio.shield(_reap(process))


async def _reap(process: Process) -> None:
    await _has_left(process)
    # A descendant that has fled into a session of its own may hold the pipes open: we let go of them all the same.
    transport = cast("asyncio.SubprocessTransport", process._transport)  # pyright: ignore
    with suppress(ProcessLookupError, PermissionError):
        transport.close()


async def _has_left(process: Process) -> bool:
    # Not `wait`, which also waits for everybody who holds the pipes.
    give_up = asyncio.get_running_loop().time() + _LEAVE
    while process.returncode is None and asyncio.get_running_loop().time() < give_up:  # noqa: ASYNC110  nobody tells
        await asyncio.sleep(0.01)
    return process.returncode is not None


def _signal(process: Process, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, number)
