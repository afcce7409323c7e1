"""A program that may not be trusted to end: started under a supervisor, watched, and killed with its process tree.

`supervisor.py` is the other side. On other systems than Linux there is no supervisor: a program is started by itself,
and what it has moved to other process groups is not found.
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

from finclaw.tools.process.process_tree import (
    HAS_PROCESS_TREE,
    kill_descendants,
    kill_orphans,
    kill_orphans_of_dead_gateways,
)
from finclaw.tools.process.supervisor import ASK_TO_EXIT, build_supervisor_command

EXIT_GRACE: Final = 0.4  # seconds to exit by itself, and again when asked to


class Program:
    """A running program. `process` has its pipes, and the id of its supervisor, which writes `status`."""

    def __init__(self, process: Process, status: asyncio.StreamReader) -> None:
        self.process = process
        self._status = status

    @classmethod
    async def start(cls, command: Sequence[str], environment: Mapping[str, str], largest: int) -> "Program":
        """`largest`: bytes of a line of its output. Raises OSError when it cannot be started."""
        await asyncio.to_thread(kill_orphans_of_dead_gateways)
        status = asyncio.StreamReader()
        reads, writes = os.pipe()
        protocol = asyncio.StreamReaderProtocol(status)
        await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, FileIO(reads))
        try:
            # A session of its own: what it starts in turn can be ended with it, and no Ctrl-C of ours reaches it.
            process = await asyncio.create_subprocess_exec(
                *(build_supervisor_command(command, writes) if HAS_PROCESS_TREE else command),
                stdin=PIPE,
                stdout=PIPE,
                stderr=PIPE,
                env=environment,
                start_new_session=True,
                limit=largest,
                pass_fds=(writes,) if HAS_PROCESS_TREE else (),
            )
        finally:
            os.close(writes)
        started = cls(process, status)
        await started._wait_for_start(command[0])
        return started

    async def _wait_for_start(self, command: str) -> None:
        if not HAS_PROCESS_TREE:
            return
        try:
            error = int(await self._status.readline() or errno.ESRCH)
        except BaseException:  # whoever waits has been cancelled: what has begun is ended first
            await self.end()
            raise
        if error:
            await self.end()
            raise OSError(error, os.strerror(error), command)

    async def watch(self) -> None:
        """Until its supervisor is gone. Where the program has killed that, its orphans are killed here."""
        await self._status.read()
        await self._wait_for_exit()
        await self._kill_orphans()

    async def end(self) -> None:
        """By closing its input, asking it, then killing it. Even if the caller is cancelled, nothing of it lives on."""
        try:
            with suppress(OSError):
                cast("asyncio.StreamWriter", self.process.stdin).close()
            if not await self._wait_for_exit():
                self._signal(ASK_TO_EXIT if HAS_PROCESS_TREE else signal.SIGTERM)
                await self._wait_for_exit()
        finally:
            self._signal(signal.SIGTERM if HAS_PROCESS_TREE else signal.SIGKILL)  # also to what it has left behind
            self._signal(signal.SIGCONT)  # it may have stopped its supervisor
            await asyncio.shield(self._reap())

    async def _reap(self) -> None:
        if not await self._wait_for_exit() and HAS_PROCESS_TREE:  # stopped again, or busy with more than it can end
            await asyncio.to_thread(kill_descendants, self.process.pid)
        self._signal(signal.SIGKILL)
        await self._wait_for_exit()
        await self._kill_orphans()
        # Somebody whom we have not found may hold the pipes open: we let go of them all the same.
        transport = cast("asyncio.SubprocessTransport", self.process._transport)  # pyright: ignore
        with suppress(ProcessLookupError, PermissionError):
            transport.close()

    async def _kill_orphans(self) -> None:
        if self.process.returncode != 0:  # a supervisor exits with 0 when it has killed all: somebody has killed it
            await asyncio.to_thread(kill_orphans)

    async def _wait_for_exit(self) -> bool:
        # Not `wait`, which also waits for everybody who holds the pipes.
        loop = asyncio.get_running_loop()
        give_up = loop.time() + EXIT_GRACE
        while self.process.returncode is None and loop.time() < give_up:  # noqa: ASYNC110  nobody tells
            await asyncio.sleep(0.01)
        return self.process.returncode is not None

    def _signal(self, number: int) -> None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self.process.pid, number)
