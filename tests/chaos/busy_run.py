"""The supervisor of busy conversations: people who write on, stop, interrupt, edit and delete, alone and in groups."""

import asyncio
import sys
import time
from collections import defaultdict, deque
from pathlib import Path
from typing import Final

import apsw
from tests.chaos.audit import open_for_reading, read_books
from tests.chaos.busy_audit import STOPS, BusyVerdict, audit_busy
from tests.chaos.gateway import Gateway
from tests.chaos.harness import DRAINS_WITHIN, PATIENT, Run
from tests.chaos.report import Row, current_test, rows

from finclaw.storage.kinds import StoreKind

CHILD: Final = ("-m", "tests.chaos.busy_child")
PLACES: Final = ("c0", "c1", "g0", "g1")
"""Two direct chats and two groups."""
PEOPLE: Final = ("ada", "bob")
MODES: Final = ("steer", "collect", "interrupt", "steer-backlog", "followup")
MOST_OPEN: Final = 30
"""Messages without an end beyond which nobody writes: else a slow machine would never get to the end of them."""
STAYS: Final = 0.75
"""How likely somebody goes on writing where they have just written."""


class BusyRun(Run):
    """A run whose people keep their conversations busy."""

    def __init__(self, place: Path, storage: StoreKind, mode: str, *, debounce: int = 0, cap: int = 1_000) -> None:
        super().__init__(place, storage=storage, max_attempts=PATIENT)
        self.hold: tuple[int, str] = (0, "")
        """Of the gateways that are started next: how many must wait behind a tool until it ends, and where."""
        self.stops = 0
        self._mode, self._may_drop = mode, cap < MOST_OPEN
        self._options = ("--mode", mode, "--debounce", str(debounce), "--cap", str(cap))
        self._writer = (PLACES[0], PEOPLE[0])
        self._recent: defaultdict[tuple[str, str], deque[str]] = defaultdict(lambda: deque(maxlen=3))
        self._open, self._looked = 0, 0.0

    async def start(self, *, crash: str | None = None, later: bool = False, slow: float = 0.0) -> Gateway:
        self.child = (*CHILD, *self._options, "--hold", str(self.hold[0]), "--hold-in", self.hold[1])
        return await super().start(crash=crash, later=later, slow=slow)

    # ── people ──────────────────────────────────────────────────────────────────────────────────────────────

    def write(self, conversation: str | None = None, text: str = "") -> str:
        """Whatever somebody may write, somewhere; or this text, with the next number."""
        if conversation is not None:
            return self.ask(conversation, text)
        if self.dice.random() > STAYS:
            place = self.dice.choice(PLACES)
            self._writer = (place, self.dice.choice(PEOPLE) if place.startswith("g") else PEOPLE[0])
        place, sender = self._writer
        recent, throw = self._recent[self._writer], self.dice.random()
        if throw < 0.03:
            return self.stop(place, sender)
        if throw < 0.06 and recent:
            return self.platform.write(place, f"delete {recent.popleft()}", sender=sender)
        if throw < 0.08:
            return self.edit_waiting(place, sender)
        if throw < 0.16 and recent:
            return self.ask(place, f"edit {self.dice.choice(recent)}", sender)
        return self.ask(place, f"/queue {self.dice.choice(MODES)}" if throw < 0.50 else "", sender)

    def ask(self, conversation: str, text: str = "", sender: str = PEOPLE[0]) -> str:
        """A question with the next number; the message's id."""
        self.written += 1
        message_id = self.platform.write(conversation, f"{text} n={self.written}".strip(), sender=sender)
        self._recent[conversation, sender].append(message_id)
        return message_id

    def ask_slowly(self, conversation: str, sender: str = PEOPLE[0]) -> str:
        """A question that is looked up first, which takes as long as `hold` says."""
        self.written += -(self.written + 1) % 3  # so that its number divides by three
        return self.ask(conversation, sender=sender)

    def edit_waiting(self, conversation: str, sender: str = PEOPLE[0]) -> str:
        """An edit of a message that waits for its turn, also where the machine is quick and little else waits."""
        self.ask_slowly(conversation, sender)
        waiting = self.ask(conversation, "/queue followup", sender)
        return self.ask(conversation, f"edit {waiting}", sender)

    def stop(self, conversation: str, sender: str = PEOPLE[0]) -> str:
        self.stops += 1
        return self.platform.write(conversation, self.dice.choice(sorted(STOPS)), sender=sender)

    def is_overloaded(self) -> bool:
        if time.monotonic() > self._looked + 0.25:
            self._open, self._looked = count_open(self.database), time.monotonic()
        return self._open + self.platform.unacknowledged >= MOST_OPEN

    @property
    def told(self) -> int:
        return self.written + self.stops - self._open

    # ── waiting, and the books ──────────────────────────────────────────────────────────────────────────────

    async def caught_up(self, gateway: Gateway) -> None:
        """All that is there now has ended."""
        await self.ended(_query(self.database, "SELECT coalesce(max(id), 0) FROM inbound"), gateway)

    async def ended(self, last: int, gateway: Gateway) -> None:
        ends = time.monotonic() + DRAINS_WITHIN
        while left := _query(self.database, f"SELECT count(*) FROM inbound WHERE kind IS NULL AND id <= {last}"):
            assert time.monotonic() < ends, f"after {DRAINS_WITHIN:g} s {left} have no end\n{gateway.said}"
            assert gateway.alive, f"the gateway ended by itself\n{gateway.said}"
            await asyncio.sleep(0.05)

    async def drain_busy(self) -> BusyVerdict:
        """A life without harm: everything ends, the gateway stops, the books are read."""
        self.platform.fault = lambda _: None
        gateway = await self.start()
        await self.all_told(gateway)
        await gateway.stop()
        books = read_books(self.database)
        found = audit_busy(self.audience.events, books, mode=self._mode, may_drop=self._may_drop)
        took, messages = time.monotonic() - self.began, len(books.entries)
        kept = (len(found.lost), len(found.out_of_order), len(found.doubled), found.repeats)
        rows.append(Row(current_test(), self.kills, messages, *kept, took))
        ends = ", ".join(f"{number} {kind}" for kind, number in sorted(found.outcomes.items()))
        sys.stdout.write(
            f"{self.kills} kills, {messages} messages ({ends}), lost {kept[0]}, out of order {kept[1]}, "
            f"doubled {kept[2]}, merged {len(found.merged)}, seen after a stop {len(found.unstopped)}, "
            f"duplicates in doubt {found.repeats}, {took:.1f} s, seed {self.seed}\n"
        )
        return found


def count_open(database: Path) -> int:
    """Messages without an end; 0 as long as there are no tables."""
    try:
        return _query(database, "SELECT count(*) FROM inbound WHERE kind IS NULL")
    except (apsw.CantOpenError, apsw.SQLError):
        return 0


def _query(database: Path, query: str) -> int:
    db = open_for_reading(database)
    try:
        return int(db.execute(query).get)
    finally:
        db.close()
