"""The extension in a registrar of its own, in real time: its servers are real programs."""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

from msgspec.structs import replace

from finclaw.builtins.mcp import extension
from finclaw.builtins.mcp.pins import MIGRATIONS, Pins
from finclaw.clock import SystemClock
from finclaw.config.load import SecretKeeper
from finclaw.diagnostics.event_stream import EventStream
from finclaw.extensions.loading import LocatedExtension
from finclaw.extensions.recurring import RecurringTasks
from finclaw.extensions.registrar import Registrar
from finclaw.extensions.registration import NULL_SERVICES
from finclaw.kernel.envelope import Inbound, Sender
from finclaw.kernel.port import CommandScope, Tool, ToolScope
from finclaw.storage.sqlite.extension import ExtensionDatabase
from finclaw.tools.time_limit import run_with_limit

SERVERS = Path(__file__).parent / "servers"
SCOPE = ToolScope(session="s", turn_id="t", call_id="c", sender=Sender("web:owner"))


def honest(words: Path) -> dict[str, Any]:
    return {"command": [sys.executable, str(SERVERS / "honest.py"), str(words)]}


def rogue(how: str, **more: Any) -> dict[str, Any]:
    return {"command": [sys.executable, str(SERVERS / "rogue.py"), how], **more}


class Bench:
    def __init__(self, state: Path, databases: str = "own") -> None:
        self.state = state
        self._databases = state / databases
        self.registrar = Registrar(
            EventStream(),
            replace(NULL_SERVICES, database=partial(ExtensionDatabase, self._databases)),
        )

    @asynccontextmanager
    async def open(self, **settings: Any) -> AsyncGenerator["Bench"]:
        found = LocatedExtension(
            "mcp", extension.register, "", settings, follow=SecretKeeper(os.environ, self.state).fetch
        )
        self.registrar.load([found])
        recurring = RecurringTasks(self.registrar.recurring, SystemClock())
        recurring.start()
        try:
            yield self
        finally:
            await recurring.stop()
            await self.registrar.close()

    @property
    def names(self) -> list[str]:
        return sorted(tool.spec.name for tool in self.registrar.tools.list())

    def tool(self, name: str) -> Tool:
        tool = self.registrar.tools.get(name)
        assert tool is not None, f"{name} is not there, only {self.names}"
        return tool

    async def said(self, text: str = "/mcp") -> str:
        """What the command /mcp answers."""
        (command,) = self.registrar.commands
        scope = CommandScope(inbound=Inbound(text=text), session="s", sender=SCOPE.sender)
        return (await command.run((), scope)).text

    async def says(self, words: str) -> None:
        async with asyncio.timeout(60):
            while words not in await self.said():  # noqa: ASYNC110  there is nobody who would tell
                await asyncio.sleep(0.01)

    async def says_not(self, words: str) -> None:
        async with asyncio.timeout(60):
            while words in await self.said():  # noqa: ASYNC110  there is nobody who would tell
                await asyncio.sleep(0.01)

    async def has(self, *names: str) -> None:
        await until(lambda: set(names) <= set(self.names))

    async def run(self, name: str, /, **args: Any) -> str:
        return (await run_with_limit(self.tool(name), args, SCOPE)).content

    @asynccontextmanager
    async def pins(self) -> AsyncGenerator[Pins]:
        """As the terminal opens them, beside a gateway that runs."""
        database = ExtensionDatabase(self._databases, "mcp", MIGRATIONS)
        try:
            yield Pins(database)
        finally:
            await database.close()


async def until(holds: Callable[[], bool], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not holds():  # noqa: ASYNC110  there is nobody who would tell
            await asyncio.sleep(0.01)
