"""`finclaw chat` at a terminal of its own: keys go in, and what appears is waited for."""

import asyncio
import codecs
import importlib.util
import os
import pty
import select
import struct
import sys
import termios
import time
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from fcntl import ioctl
from pathlib import Path

import pytest
from tests.cli.emulator import Emulator
from tests.cli.terminal import clean_environment
from tests.fork_server import GATEWAY, ForkedProcess, fork_server

from finclaw.app import App
from finclaw.channels.mailbox import MailboxChannel
from finclaw.cli.client import announce_gateway
from finclaw.composition.gateway import build
from finclaw.config.schema import Settings
from finclaw.gateway import Gateway
from finclaw.kernel.extension import Extension
from finclaw.kernel.port import Provider
from finclaw.web.principal import CHANNEL
from finclaw.web.server import listen, serve_web
from finclaw.web.settings import WebServerSettings
from finclaw.web.token import obtain_token

ENTER, ESC, BACKSPACE, CTRL_C, CTRL_D, UP, LEFT = "\r", "\x1b", "\x7f", "\x03", "\x04", "\x1b[A", "\x1b[D"
PASTE_BEGIN, PASTE_END = "\x1b[200~", "\x1b[201~"
PATIENCE = 60.0
"""Seconds in which what has to appear does so on the slowest machine."""

_START = """
import fcntl, runpy, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
if {without_toolkit}:
    sys.modules["prompt_toolkit"] = None
sys.argv[0] = "finclaw"
runpy.run_module("finclaw", run_name="__main__")
"""
ROWS = 24


class Terminal:
    def __init__(self, process: ForkedProcess, master: int, name: str, columns: int) -> None:
        self.process = process
        self.raw = b""
        self._master = master
        self._name = name
        self._shown = Emulator(columns, ROWS)
        self._decode = codecs.getincrementaldecoder("utf-8")("ignore").decode
        self._read_to = (0, "")
        """The row of what was expected last, and its beginning up to there; what may change is read again."""

    def type(self, keys: str) -> None:
        os.write(self._master, keys.encode())

    async def type_ahead(self, keys: str) -> None:
        """Keys for the next prompt without prompt_toolkit; returns when the terminal has them."""
        self.type(keys)
        async with asyncio.timeout(PATIENCE):
            while self._waiting() != len(keys.encode()):  # noqa: ASYNC110  nobody is told
                await asyncio.sleep(0.01)

    async def expect(self, text: str) -> str:
        """Everything up to and including this text, which has to appear behind what was expected last."""
        return await asyncio.to_thread(self._expect, text)

    async def interrupt(self, shows: str) -> None:
        """Ctrl-C at a prompt. Once is enough."""
        self.type(CTRL_C)
        await self.expect(shows)

    async def leave(self) -> int:
        """Ctrl-C right behind another one. On a slow machine it may come too late to count as the second."""
        self.type(CTRL_C)
        try:
            await self.expect("Ctrl-C")
        except AssertionError:  # it has left
            return await self.ended()
        self.type(CTRL_C)
        return await self.ended()

    async def see(self, text: str) -> None:
        """Wait for a text anywhere, such as one that is being typed; what follows is expected where it was before."""
        await asyncio.to_thread(self._wait_for, lambda: text in self.text, repr(text))

    async def prompt(self) -> str:
        """Everything up to an empty line to type in, while no answer is awaited."""
        await asyncio.to_thread(self._wait_for, self._is_idle, "a prompt")
        shown = self._unread
        self._read_to = (len(self._shown.lines) - 1, "")
        return shown

    async def ended(self) -> int:
        """The exit code."""
        return await asyncio.to_thread(self._ended)

    @property
    def text(self) -> str:
        """All that is shown, or was until it scrolled out."""
        return "\n".join(self._shown.lines)

    def _waiting(self) -> int:
        """Bytes that were typed and that nobody has read yet."""
        theirs = os.open(self._name, os.O_RDWR | os.O_NOCTTY)
        try:
            return int.from_bytes(ioctl(theirs, termios.FIONREAD, bytes(4)), sys.byteorder)
        finally:
            os.close(theirs)

    def _expect(self, text: str) -> str:
        self._wait_for(lambda: text in self._unread, repr(text))
        found = self._unread[: self._unread.index(text) + len(text)]
        row, seen = self._read_to
        *rows, last = found.split("\n")
        before = "" if rows or not self._shown.lines[row].startswith(seen) else seen
        self._read_to = (row + len(rows), before + last)
        return found

    def _is_idle(self) -> bool:
        *above, last = ["", *self._shown.lines]
        is_awaiting = above[-1:] and (above[-1].startswith("…") or "trying again" in above[-1])
        return last == ">" and len(above) - 1 == self._shown.row and not is_awaiting

    def _wait_for(self, is_shown: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_shown():
            if not self._more(deadline - time.monotonic()):
                raise AssertionError(f"{what} did not appear in {self._unread!r}, all of it: {self.text!r}")

    @property
    def _unread(self) -> str:
        row, seen = self._read_to
        return "\n".join(self._shown.lines[row:]).removeprefix(seen)

    def _ended(self) -> int:
        deadline = time.monotonic() + PATIENCE
        while self._more(deadline - time.monotonic()):
            pass
        return self.process.wait(max(0.1, deadline - time.monotonic()))

    def _more(self, seconds: float) -> bool:
        """False at the deadline, and when the other end is closed."""
        if seconds <= 0 or not select.select([self._master], [], [], seconds)[0]:
            return False
        try:
            some = os.read(self._master, 65_536)
        except OSError:  # how Linux says that nobody holds the other end any more
            return False
        self.raw += some
        self._shown.feed(self._decode(some))
        return bool(some)


@contextmanager
def chatting(state: Path, *args: str, toolkit: bool = True, columns: int = 80, **environ: str) -> Generator[Terminal]:
    """With prompt_toolkit unless told otherwise: only there is news shown while the prompt stands."""
    if toolkit and not importlib.util.find_spec("prompt_toolkit"):
        pytest.skip("needs the extra `chat`")
    with at_terminal("chat", "--state", str(state), *args, toolkit=toolkit, columns=columns, **environ) as terminal:
        yield terminal


@contextmanager
def at_terminal(*args: str, toolkit: bool = False, columns: int = 80, **environ: str) -> Generator[Terminal]:
    """`finclaw` with these arguments, at a terminal of its own; with prompt_toolkit, or without it."""
    code = _START.format(without_toolkit=not toolkit)
    with python_at_terminal(code, *args, columns=columns, **environ) as terminal:
        yield terminal


@contextmanager
def python_at_terminal(code: str, *args: str, columns: int = 80, **environ: str) -> Generator[Terminal]:
    master, slave = pty.openpty()
    ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, columns, 0, 0))
    place = {"TERM": "xterm", "LC_ALL": "C.UTF-8", "PROMPT_TOOLKIT_NO_CPR": "1", "INPUTRC": "/dev/null"}
    ours = {name: value for name, value in clean_environment().items() if name not in ("NO_COLOR", "COLUMNS")}
    process = fork_server(*GATEWAY).start(["-c", code, *args], ours | place | environ, (slave, slave, slave))
    name = os.ttyname(slave)
    os.close(slave)
    try:
        yield Terminal(process, master, name, columns)
    finally:
        process.kill()
        process.wait()
        os.close(master)


@asynccontextmanager
async def reachable(state: Path, gateway: Gateway) -> AsyncGenerator[None]:
    """Inside, a chat finds this gateway."""
    token, _ = obtain_token(state)
    settings = WebServerSettings(port=0)
    sock = listen(settings)
    async with serve_web(gateway, settings, token, sock=sock) as server:
        try:
            with announce_gateway(state, server.url):
                yield
        finally:
            # A chat may be connecting right now. Whoever was let in has to be known to the server before it says
            # goodbye to all it knows, else that connection outlives the event loop.
            asyncio.get_running_loop().remove_reader(sock.fileno())
            for _ in range(10):
                await asyncio.sleep(0)


@asynccontextmanager
async def house(state: Path, provider: Provider, *extensions: Extension) -> AsyncGenerator[App]:
    settings, channels = Settings(state=state), (MailboxChannel(CHANNEL),)
    async with build(settings, channels=channels, provider=provider, extensions=extensions) as app:
        yield app
