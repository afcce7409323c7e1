"""A state directory in virtual time: what an earlier life left in it, and gateways that start on it."""

from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import apsw
from msgspec.structs import replace
from tests.ports.nouns import begin, ended, ending, nobody, nothing

from finclaw.app import App
from finclaw.composition.gateway import build
from finclaw.config.schema import Settings
from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.envelope import Capabilities, Inbound, Outbound, Receipt, Sender
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.record import Accepted, OutboxItem, OutboxState
from finclaw.kernel.scope import DeliveryContext
from finclaw.sessions.session_key import session_key
from finclaw.sessions.settings import QueueSettings, SessionSettings
from finclaw.storage.sqlite.codec import read_inbound
from finclaw.storage.sqlite.store import SqliteStore, open_store
from finclaw.testing import FakeClock, MemoryChannel, ScriptedProvider, say
from finclaw.testing.provider import Line

JUMPS = (timedelta(hours=-1), timedelta(hours=1), timedelta(days=-1), timedelta(days=1))


class Place(MemoryChannel):
    """A channel that notes when each send was tried, in time that nobody can set."""

    def __init__(self, clock: FakeClock, *, idempotent: bool = False) -> None:
        super().__init__(clock, capabilities=Capabilities(idempotent=idempotent))
        self._time = clock
        self.tried_at: list[float] = []

    async def send(self, unit: OutboxItem) -> Receipt:
        self.tried_at.append(self._time.monotonic())
        return await super().send(unit)

    @property
    def said(self) -> list[str]:
        return [sent.text for sent in self.sent]


class Perishable:
    """An extension after which every answer is worth nothing once it is old."""

    name = "perishable"

    def register(self, api: ExtensionApi) -> None:
        async def layer(ctx: DeliveryContext) -> Outbound:
            return replace(await ctx.next(), perishable=True)

        api.pipeline.register("delivery", layer)


def echo(request: ModelRequest) -> Line:
    return say(f"re: {request.messages[-1].text}")


@dataclass
class House:
    """The state, its clock and its channel, which outlive every gateway."""

    state: Path
    clock: FakeClock
    channel: Place
    script: Callable[[ModelRequest], Line] = echo
    perishable: bool = False
    asked: list[str] = field(default_factory=list[str])

    @asynccontextmanager
    async def gateway(self) -> AsyncGenerator[App]:
        provider = ScriptedProvider(self._script, clock=self.clock)
        extensions = (Perishable(),) if self.perishable else ()
        async with build(
            Settings(state=self.state, sessions=SessionSettings(queue=QueueSettings(mode="followup"))),
            channels=[self.channel],
            provider=provider,
            extensions=extensions,
            clock=self.clock,
            threaded=False,
        ) as app:
            yield app

    def _script(self, request: ModelRequest) -> Line:
        self.asked.append(request.messages[-1].text)
        return self.script(request)

    # ── what an earlier life left ───────────────────────────────────────────────────────────────────────────

    @asynccontextmanager
    async def store(self) -> AsyncGenerator[SqliteStore]:
        self.state.mkdir(exist_ok=True)
        store = open_store(self.state / "finclaw.db", self.clock, threaded=False)
        yield store
        await store.close()

    async def left_unfinished(self, store: SqliteStore, text: str, *, sender: str = "ada") -> Accepted:
        inbound = Inbound(text=text, channel="memory", message_id=text, sender=Sender(sender))
        return await store.accept(inbound, session_key("main", inbound), nobody)

    async def left_unsent(
        self, store: SqliteStore, *outbounds: Outbound, state: OutboxState = "planned", sender: str = "ada"
    ) -> Accepted:
        """A message that was answered, with an answer that nobody has read yet."""
        accepted = await self.left_unfinished(store, f"asked for {outbounds[0].text}", sender=sender)
        claim = await begin(store, accepted)
        units = store.plan(accepted, outbounds, claim.turn_id)
        finish = replace(ending(store, accepted, claim), units=units, outcome=ended(reply=outbounds[0].text))
        assert await store.finish(finish, nothing)
        await store.settle(replace(units[0], state=state))
        return accepted

    # ── what is in it ───────────────────────────────────────────────────────────────────────────────────────

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        db = apsw.Connection(str(self.state / "finclaw.db"))
        try:
            return db.execute(query).fetchall()
        finally:
            db.close()

    def units(self) -> list[str]:
        return [str(state) for (state,) in self.rows("SELECT state FROM unit ORDER BY id")]

    def outcomes(self) -> list[str | None]:
        return [None if kind is None else str(kind) for (kind,) in self.rows("SELECT kind FROM inbound ORDER BY id")]

    def links(self) -> list[str | None]:
        """For each message, the one that it asks for again."""
        return [read_inbound(str(body)).reissue_of for (body,) in self.rows("SELECT body FROM inbound ORDER BY id")]
