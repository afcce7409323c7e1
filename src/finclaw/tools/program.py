"""A program of ours that may not be trusted to end: started under a warden, watched, and ended with its whole family.

`warden.py` is the other side. Elsewhere than on Linux there is no warden: a program is started by itself, and what it
has sent into other process groups is not found.
"""

import asyncio
import errno
import os
import signal
from asyncio.subprocess import PIPE, Process
from collections.abc import Mapping, Sequence
from contextlib import suppress
from io import FileIO
from typing import Final, cast

from finclaw.tools.family import KNOWS_FAMILIES, end_descendants, end_strays, end_strays_of_the_dead
from finclaw.tools.warden import TELL, with_warden

LEAVE: Final = 0.4
"""Seconds to leave by itself when its input is closed, and again when it is asked to."""


class Program:
    """`process` has the program's pipes, and the number of its warden. `word` is the warden's own pipe to us."""

    def __init__(self, process: Process, word: asyncio.StreamReader) -> None:
        self.process = process
        self._word = word

    @classmethod
    async def start(cls, command: Sequence[str], environment: Mapping[str, str], largest: int) -> "Program":
        """`largest`: bytes of a line of its output. Raises OSError when it cannot be started."""
        await asyncio.to_thread(end_strays_of_the_dead)
        word = asyncio.StreamReader()
        reads, writes = os.pipe()
        wire = asyncio.StreamReaderProtocol(word)
        await asyncio.get_running_loop().connect_read_pipe(lambda: wire, FileIO(reads))
        try:
            # A session of its own: what it starts in turn can be ended with it, and no Ctrl-C of ours reaches it.
            process = await asyncio.create_subprocess_exec(
                *(with_warden(command, writes) if KNOWS_FAMILIES else command),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=environment,
                start_new_session=True,
                limit=largest,
                pass_fds=(writes,) if KNOWS_FAMILIES else (),
            )
        finally:
            os.close(writes)
        started = cls(process, word)
        await started._see_it_start(command[0])
        return started

    async def _see_it_start(self, command: str) -> None:
        if not KNOWS_FAMILIES:
            return
        try:
            trouble = int(await self._word.readline() or errno.ESRCH)
        except BaseException:  # whoever waits has been cancelled: what has begun is ended first
            await self.end()
            raise
        if trouble:
            await self.end()
            raise OSError(trouble, os.strerror(trouble), command)

    async def watch(self) -> None:
        """Until its warden is gone. What the program has left behind when it killed that ends here."""
        await self._word.read()
        await self._has_left()
        await self._end_strays()

    async def end(self) -> None:
        """Asked, then told, then made to. Whatever becomes of the one who waits here, nothing of it lives on."""
        try:
            with suppress(OSError):
                cast("asyncio.StreamWriter", self.process.stdin).close()
            if not await self._has_left():
                self._signal(TELL if KNOWS_FAMILIES else signal.SIGTERM)
                await self._has_left()
        finally:
            self._signal(signal.SIGTERM if KNOWS_FAMILIES else signal.SIGKILL)  # also to what it has left behind
            self._signal(signal.SIGCONT)  # it may have stopped its warden
            await asyncio.shield(self._reap())

    async def _reap(self) -> None:
        if not await self._has_left() and KNOWS_FAMILIES:  # stopped again, or busy with more than it can end
            await asyncio.to_thread(end_descendants, self.process.pid)
        self._signal(signal.SIGKILL)
        await self._has_left()
        await self._end_strays()
        # Somebody whom we have not found may hold the pipes open: we let go of them all the same.
        transport = cast("asyncio.SubprocessTransport", self.process._transport)  # pyright: ignore
        with suppress(ProcessLookupError, PermissionError):
            transport.close()

    async def _end_strays(self) -> None:
        if self.process.returncode != 0:  # a warden goes with 0 when it has ended all: somebody has killed it
            await asyncio.to_thread(end_strays)

    async def _has_left(self) -> bool:
        # Not `wait`, which also waits for everybody who holds the pipes.
        loop = asyncio.get_running_loop()
        give_up = loop.time() + LEAVE
        while self.process.returncode is None and loop.time() < give_up:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.01)
        return self.process.returncode is not None

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)
