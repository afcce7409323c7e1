"""The supervisor: keeps people writing, kills the gateway, starts it again, and at the end asks what became of it all.

The platform lives in the test's own loop and outlives every gateway. The database is read only after the last
gateway has stopped in good order. Each failure names the seed and the history, which stays beside the state.
"""

import asyncio
import os
import random
import re
import secrets
import signal
import sys
import time
from collections.abc import AsyncGenerator, Callable, Sequence, Set
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tests.chaos.audit import Audit, audit, given_up, unsettled
from tests.chaos.gateway import CHILD, Gateway
from tests.chaos.report import Row, current_test, rows, tell_progress
from tests.fork_server import GATEWAY
from tests.support.history import History, HistoryEvent, ReplySeen
from tests.support.platform import FakePlatform, SendFault
from tests.support.wire import SendBody

from finclaw.storage.kinds import StoreKind
from finclaw.storage.sqlite.database import DATABASE

DRAINS_WITHIN: Final = 240.0
PATIENT: Final = 1_000_000
"""A poison limit that no run reaches."""

MOST_WAITING: Final = 400
"""People who wait for so many answers write no more: else a slow machine would never get to the end of them."""
FEW: Final = 50
"""Who still wait when it is time to look in the books whether they wait for something that will never come."""

_LAST_WORDS: Final = re.compile(r"(\d+)>$")


class Audience(History):
    """The history, and who in it still waits for the end of an answer."""

    def __init__(self, path: Path) -> None:
        super().__init__(path)
        self.waiting: dict[int, str] = {}

    def write(self, event: HistoryEvent) -> None:
        super().write(event)
        if isinstance(event, ReplySeen):
            self._hear(event)

    def _hear(self, reply: ReplySeen) -> None:
        if (last := _LAST_WORDS.search(reply.text)) is not None:
            self.waiting.pop(int(last.group(1)), None)
        elif "<" not in reply.text and reply.reply_to is not None:  # the gateway speaks for itself: no answer will come
            self.give_up({reply.reply_to})

    def give_up(self, message_ids: Set[str]) -> None:
        self.waiting = {n: message_id for n, message_id in self.waiting.items() if message_id not in message_ids}


class Run:
    """One state directory, one platform, and as many gateways one after the other as it takes."""

    def __init__(
        self,
        place: Path,
        *,
        storage: StoreKind = "sqlite",
        conversations: int = 12,
        idempotent: bool = False,
        edits: bool = False,
        max_attempts: int = 3,
        layer_kills: bool = False,
        sessions: str = "",
        platform: Callable[[History], FakePlatform] | None = None,
        child: Sequence[str | Path] = (CHILD,),
        modules: Sequence[str] = GATEWAY,
    ) -> None:
        self.seed = int(os.environ.get("CHAOS_SEED") or secrets.randbits(32))
        self.dice = random.Random(self.seed)
        self.state = place / "state"
        self.database = self.state / DATABASE
        self.kills = 0
        self._history = place / "history.jsonl"
        self._errors = place / "gateway.log"
        self._work = place / "work.log"
        self.audience = Audience(self._history)
        self.platform = (platform or partial(FakePlatform, idempotent=idempotent))(self.audience)
        self.child = child
        self._modules = modules
        self.gateway: Gateway | None = None
        self._conversations = [f"c{number}" for number in range(conversations)]
        self._storage = storage
        self._idempotent = idempotent
        self._edits = edits
        self._max_attempts = max_attempts
        self._layer_kills = layer_kills
        self._sessions = sessions
        self.written: int = 0
        self.began = time.monotonic()

    async def __aenter__(self) -> Self:
        await self.platform.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        try:
            if self.gateway is not None:
                await self.gateway.kill()
        finally:
            await self.platform.stop()
            self.audience.close()
        if error is not None:
            error.add_note(f"CHAOS_SEED={self.seed}, history in {self._history}, the gateways' words in {self._errors}")

    # ── people ──────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, conversation: str | None = None, text: str = "") -> str:
        """The next number, somewhere; the message's id."""
        self.written += 1
        n = self.written
        message_id = self.platform.write(conversation or self.dice.choice(self._conversations), f"{text} n={n}".strip())
        self.audience.waiting[n] = message_id
        return message_id

    @asynccontextmanager
    async def load(self, rate: float) -> AsyncGenerator[None]:
        """So many messages a second for as long as the block lasts, whether or not there is a gateway."""

        async def keep_writing() -> None:
            began, count = time.monotonic(), 0
            while True:
                while count < (time.monotonic() - began) * rate:
                    count += 1
                    if not self.is_overloaded():
                        self.write()
                await asyncio.sleep(1 / rate)

        writing = asyncio.create_task(keep_writing())
        try:
            yield
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)

    def is_overloaded(self) -> bool:
        """Whether people write no more for a while."""
        return len(self.audience.waiting) >= MOST_WAITING

    @property
    def told(self) -> int:
        return self.written - len(self.audience.waiting)

    def hesitates(self, _: SendBody) -> SendFault | None:
        """A platform under load: it takes its time, before it shows something or after."""
        throw = self.dice.random()
        return SendFault("slow" if throw < 0.1 else "late", self.dice.uniform(0.0, 0.05)) if throw < 0.3 else None

    def moods(self, body: SendBody) -> SendFault | None:
        """A platform on a bad day: it also breaks off, and now and then it has enough."""
        throw = self.dice.random()
        if throw < 0.03:
            return SendFault("cut")
        return SendFault("busy") if throw < 0.031 else self.hesitates(body)

    def worked(self) -> list[str]:
        """What the model was asked and which tools were run, over all lives."""
        return self._work.read_text().splitlines() if self._work.exists() else []

    # ── the gateway's lives ─────────────────────────────────────────────────────────────────────────────────

    async def start(self, *, crash: str | None = None, later: bool = False, slow: float = 0.0) -> Gateway:
        """The next gateway, ready; one that is armed from the start may die before that, so it is not waited for."""
        command = [*self.child, "--state", self.state, "--url", self.platform.url]
        command += ["--work", self._work, "--max-attempts", str(self._max_attempts), "--slow", str(slow)]
        command += ["--storage", self._storage]
        if self._idempotent:
            command.append("--idempotent")
        if self._edits:
            command.append("--edits")
        if self._layer_kills:
            command.append("--layer-kills")
        if later:
            command.append("--arm-later")
        self.gateway = await Gateway.spawn(command, self._errors, crash=crash, modules=self._modules)
        if crash is None or later:
            await self.gateway.ready()
        return self.gateway

    async def die_at(self, point: str) -> None:
        """A life that ends at `point:passing`, counted from its start: it may not come further than recovery."""
        await self.dies(await self.start(crash=point), point)

    async def die_later_at(self, point: str) -> None:
        """The same, counted from when all who waited at its start have been told."""
        gateway = await self.start(crash=point, later=True)
        await self.caught_up(gateway)
        gateway.arm()
        await self.dies(gateway, point)

    async def caught_up(self, gateway: Gateway) -> None:
        """All who wait now have been told, but for those to whom the rules say no more."""
        waited = set(self.audience.waiting)

        def are_told() -> bool:
            if 0 < len(waited & self.audience.waiting.keys()) <= FEW:
                self.audience.give_up(given_up(self.database))
            return waited.isdisjoint(self.audience.waiting)

        await self.until(are_told, gateway)

    async def dies(self, gateway: Gateway, where: str) -> None:
        """Nobody else kills here, so the signal proves that it was there."""
        code = await gateway.ended()
        assert code == -signal.SIGKILL, f"the gateway did not die at {where} but ended with {code}\n{gateway.said}"
        await gateway.kill()
        self._count_kill()

    async def live_for(self, seconds: float, *, caught_up: bool = False) -> None:
        """A life that ends so many seconds after it was ready, or had caught up, wherever it is then."""
        gateway = await self.start()
        if caught_up:
            await self.caught_up(gateway)
        await asyncio.sleep(seconds)
        assert gateway.alive, f"the gateway ended by itself\n{gateway.said}"
        await gateway.kill()
        self._count_kill()

    def _count_kill(self) -> None:
        self.kills += 1
        tell_progress(self.kills, self.written, self.told)

    async def drain(self) -> Audit:
        """A life without harm: everybody gets their answer, the gateway stops, the books are read."""
        self.platform.fault = lambda _: None
        gateway = await self.start()
        await self.all_told(gateway)
        await gateway.stop()
        return self.audit()

    async def all_told(self, gateway: Gateway) -> None:
        """Wait until the gateway has everything, and has neither a message nor a unit that is still on its way."""
        await self.until(lambda: not self.platform.unacknowledged, gateway)
        ends = time.monotonic() + DRAINS_WITHIN
        while left := unsettled(self.database):
            assert time.monotonic() < ends, f"after {DRAINS_WITHIN:g} s {left} are still on their way\n{gateway.said}"
            await asyncio.sleep(0.02)

    async def until(self, condition: Callable[[], bool], gateway: Gateway) -> None:
        """Wait for something that the platform sees."""
        try:
            async with asyncio.timeout(DRAINS_WITHIN):
                await self.platform.until(condition)
        except TimeoutError:
            left = f"{len(self.audience.waiting)} messages wait, {self.platform.unacknowledged} are not taken"
            raise AssertionError(f"after {DRAINS_WITHIN:g} s {left}\n{gateway.said}") from None

    def audit(self) -> Audit:
        found = audit(self.audience.events, self.database, max_attempts=self._max_attempts, sessions=self._sessions)
        took = time.monotonic() - self.began
        sins = found.verdict
        doubled, in_doubt = len(sins.duplicated), found.repeats
        kept = (len(sins.lost), len(sins.out_of_order), doubled, in_doubt)
        rows.append(Row(current_test(), self.kills, found.messages, *kept, took))
        sys.stdout.write(
            f"{self.kills} kills, {found.messages} messages ({found.answered} answered, {found.failed} given up), "
            f"{found.units} units ({found.dead} given up), lost {len(sins.lost)}, "
            f"out of order {len(sins.out_of_order)}, orphaned {len(sins.orphaned)}, "
            f"duplicates in doubt {found.repeats} of {found.doubts} doubts, {took:.1f} s, seed {self.seed}\n"
        )
        return found
