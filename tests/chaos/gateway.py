"""A gateway as the supervisor sees it: a process that becomes ready, dies or stops. Never left behind."""

import asyncio
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final

from tests.fork_server import GATEWAY, NO_INPUT, ForkedProcess, fork_server

READY_WITHIN: Final = 60.0
DIES_WITHIN: Final = 60.0
STOPS_WITHIN: Final = 30.0
CHILD: Final = Path(__file__).with_name("child.py")


class Gateway:
    """One process in a group of its own, so that whatever it starts ends with it."""

    def __init__(self, process: ForkedProcess, output: asyncio.StreamReader, errors: Path, started: float) -> None:
        self._process = process
        self._output = output
        self._errors = errors
        self._started = started
        self._end: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        asyncio.get_running_loop().add_reader(process.fileno(), self._notice_end)

    @classmethod
    async def spawn(
        cls,
        command: Sequence[str | Path],
        errors: Path,
        *,
        crash: str | None = None,
        modules: Sequence[str] = GATEWAY,
    ) -> "Gateway":
        """Start `command` with this Python, by the fork server that has imported `modules`.

        Its errors are appended to a file; `crash` is `point:passing`.
        """
        environ = {name: value for name, value in os.environ.items() if not name.startswith("FINCLAW_")}
        if crash is not None:
            environ["FINCLAW_CRASH"] = crash
        started = time.monotonic()
        ours, output = os.pipe()
        with errors.open("ab") as sink, os.fdopen(output, "wb"):
            process = fork_server(*modules).start([*map(str, command)], environ, (NO_INPUT, output, sink.fileno()))
        reader = asyncio.StreamReader()
        await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(ours, "rb")
        )
        return cls(process, reader, errors, started)

    def _notice_end(self) -> None:
        asyncio.get_running_loop().remove_reader(self._process.fileno())
        self._end.set_result(self._process.wait())

    async def _wait(self) -> int:
        return await asyncio.shield(self._end)

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def alive(self) -> bool:
        return not self._end.done()

    async def ready(self, sign: bytes = b"ready") -> float:
        """Seconds from its start until it printed a line that begins with `sign`."""
        try:
            async with asyncio.timeout(READY_WITHIN):
                while not (line := await self._line()).startswith(sign):
                    assert line, f"the gateway ended with {await self._wait()} before it was ready\n{self.said}"
        except TimeoutError:
            raise AssertionError(f"the gateway was not ready after {READY_WITHIN:g} s\n{self.said}") from None
        return time.monotonic() - self._started

    async def _line(self) -> bytes:
        return await self._output.readline()

    async def ended(self, within: float = DIES_WITHIN) -> int:
        """Its exit code, once it has ended by itself."""
        try:
            async with asyncio.timeout(within):
                return await self._wait()
        except TimeoutError:
            raise AssertionError(f"the gateway still runs after {within:g} s\n{self.said}") from None

    async def ended_or_said(self, sign: bytes, within: float = DIES_WITHIN) -> int | None:
        """Its exit code once it has ended by itself, or None as soon as it printed a line that begins with `sign`."""
        try:
            async with asyncio.timeout(within):
                while line := await self._line():
                    if line.startswith(sign):
                        return None
                return await self._wait()
        except TimeoutError:
            raise AssertionError(f"the gateway still runs after {within:g} s\n{self.said}") from None

    def arm(self) -> None:
        """From now on it counts the passings of its crash point."""
        self._process.send_signal(signal.SIGUSR1)

    async def stop(self) -> float:
        """Ask it to stop in good order; seconds it took."""
        asked = time.monotonic()
        self._process.send_signal(signal.SIGTERM)
        code = await self.ended(STOPS_WITHIN)
        assert code == 0, f"the gateway was asked to stop and ended with {code}\n{self.said}"
        return time.monotonic() - asked

    async def kill(self) -> None:
        """End it as a power switch would. Harmless when it has ended."""
        if self.alive:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)
        await self._output.read()
        await self._wait()

    @property
    def said(self) -> str:
        """The end of what the gateways of this run wrote to standard error."""
        return self._errors.read_text(errors="replace")[-4_000:]
