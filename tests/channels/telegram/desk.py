"""A gateway with a Telegram channel beside a Bot API server of ours, both in one process and in virtual time."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.telegram import BotApi

import finclaw
from finclaw.agent.settings import AgentSettings
from finclaw.approvals.people import PersonSettings
from finclaw.channels.settings import ChannelSettings
from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.envelope import Inbound, Outbound
from finclaw.kernel.extension import Extension
from finclaw.kernel.port import ChannelSpec, Clock
from finclaw.kernel.record import Accepted, OutboxItem
from finclaw.pipeline.settings import PipelineSettings
from finclaw.policy.rule import Rule
from finclaw.redaction import Secret
from finclaw.testing import FakeClock, ScriptedProvider
from finclaw.testing.provider import Line, Script
from finclaw.tools.settings import ToolsSettings

if TYPE_CHECKING:
    from finclaw.channels.telegram.channel import TelegramChannel

MINA = 42
JUN = 43
TEAM = -5001
LONG = 3_600.0
"""Virtual seconds after which a test that waits has failed."""


class Desk:
    """One state directory, one server, and gateways one after the other."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.clock = FakeClock()
        self.api = BotApi()
        self.app: finclaw.App | None = None

    @asynccontextmanager
    async def gateway(
        self,
        *script: Line | Script,
        allow: Sequence[str] = (str(MINA),),
        rooms: Sequence[str] = (str(TEAM),),
        options: Mapping[str, Any] | None = None,
        extensions: Sequence[Extension] = (),
        agent: AgentSettings | None = None,
        people: Sequence[PersonSettings] = (),
        rules: Sequence[Rule] = (),
        pipeline: PipelineSettings | None = None,
    ) -> AsyncGenerator[ScriptedProvider]:
        provider = ScriptedProvider(*script, clock=self.clock)
        telegram = ChannelSettings(
            debounce_ms=0,  # a test of that says so; the others want an answer for each message
            kind="telegram",
            secrets={"token": Secret(self.api.token)},
            allow_senders=tuple(allow),
            allow_conversations=tuple(rooms),
            settings={"api": self.api.url, **(options or {})},
        )
        chosen = finclaw.Settings(
            state=self.place / "state",
            channels={"telegram": telegram},
            agent=agent or AgentSettings(default_extensions=()),
            people=tuple(people),
            tools=ToolsSettings(rules=tuple(rules)),
            pipeline=pipeline or PipelineSettings(),
        )
        opened = finclaw.build(chosen, provider=provider, extensions=extensions, clock=self.clock, threaded=False)
        async with opened as app:
            self.app = app
            await self.api.until(lambda: self.api.calls["getUpdates"] > 0 or bool(self.api.webhook["url"]))
            yield provider


def channel_at(
    api: BotApi, clock: Clock, files: Mapping[str, bytes] | None = None, /, **settings: Any
) -> "TelegramChannel":
    """The channel alone, with a memory that lives as long as it does."""
    from finclaw.channels.telegram.channel import TelegramChannel  # imports aiogram: not while tests are collected

    kept: list[Any] = [None]

    async def recall() -> Any:
        return kept[0]

    async def remember(value: Any) -> None:
        kept[0] = value

    async def read_blob(name: str) -> bytes | None:
        return (files or {}).get(name)

    return TelegramChannel(
        ChannelSpec(
            name="telegram",
            account="default",
            secrets={"token": Secret(api.token)},
            settings={"api": api.url, **settings},
            clock=clock,
            recall=recall,
            remember=remember,
            read_blob=read_blob,
        )
    )


class Inbox:
    """An accept that keeps what it is given, and fails when it is told to."""

    def __init__(self) -> None:
        self.came: list[Inbound] = []
        self.failures: list[Exception] = []
        self._changed = asyncio.Event()

    async def __call__(self, inbound: Inbound) -> Accepted:
        if self.failures:
            raise self.failures.pop(0)
        self.came.append(inbound)
        self._changed.set()
        return Accepted(id="m", session="s", ticket=1, inbound=inbound, accepted_at=FakeClock().now())

    async def until(self, count: int) -> list[Inbound]:
        while len(self.came) < count:
            self._changed.clear()
            await self._changed.wait()
        return self.came


def item(outbound: Outbound, *, chat: int | str = MINA, id: str = "u-1") -> OutboxItem:
    return OutboxItem(
        id=id,
        session="s",
        inbound_id="m-1",
        turn_id=None,
        seq=0,
        channel="telegram",
        account="default",
        conversation=str(chat),
        outbound=outbound,
        planned_at=FakeClock().now(),
    )


@asynccontextmanager
async def receiving(channel: "TelegramChannel", inbox: Inbox) -> AsyncGenerator[None]:
    task = asyncio.create_task(channel.receive(inbox))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await channel.close()


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on its desk's clock, with the server up."""

    @wraps(test)
    def run(desk: Desk, **kwargs: Any) -> None:
        async def main() -> None:
            async with asyncio.timeout(LONG), desk.api:
                await test(desk, **kwargs)

        desk.clock.run(main())

    return run


def echo(request: ModelRequest) -> str:
    """The model says again what the person wrote last; the gateway's own note beside it is not meant."""
    written = [each.text for each in request.messages if each.role == "user" and "from the gateway" not in each.text]
    return f"re: {written[-1]}"
