"""Every statement that our own extensions send through the database port, run by what they are for."""

import ast
import sys
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any, Final, TypeVar

from finclaw.builtins.mcp.pins import Definition, Pins, ReadTool
from finclaw.builtins.memory.notes import NoteStore
from finclaw.finance.instruments.choices import NameChoices
from finclaw.finance.market_data.quotes import LastPrices
from finclaw.finance.market_data.source import TokenAnswer, TokenStore
from finclaw.finance.market_data.source_access import RequestBudget
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.watchlist import Watchlists
from finclaw.kernel.extension import Database, Transaction
from finclaw.kernel.person import Person
from finclaw.testing import FakeClock

T = TypeVar("T")
SOURCE: Final = Path(__file__).parents[2] / "src" / "finclaw"
NOW: Final = datetime(2026, 11, 16, 9, tzinfo=UTC)
Place = tuple[str, int]


class RecordingDatabase:
    """A database that remembers each statement and the line that sent it."""

    def __init__(self, inner: Database) -> None:
        self._inner = inner
        self.statements: set[str] = set()
        self.lines: set[Place] = set()

    def note(self, sql: str) -> None:
        caller = sys._getframe(2)  # pyright: ignore[reportPrivateUsage]
        self.statements.add(sql)
        self.lines.add((caller.f_code.co_filename, caller.f_lineno))

    async def execute(self, sql: str, *values: Any) -> Sequence[tuple[Any, ...]]:
        self.note(sql)
        return await self._inner.execute(sql, *values)

    async def transaction(self, work: Callable[[Transaction], T]) -> T:
        return await self._inner.transaction(lambda rows: work(_Recorded(self, rows)))


class _Recorded:
    def __init__(self, recording: RecordingDatabase, rows: Transaction) -> None:
        self._recording = recording
        self._rows = rows

    def execute(self, sql: str, values: Sequence[Any] = ()) -> Sequence[tuple[Any, ...]]:
        self._recording.note(sql)
        return self._rows.execute(sql, values)


def calls_in_source() -> dict[Place, range]:
    """Where the source sends a statement through the port, with the lines of the call."""
    found: dict[Place, range] = {}
    for path in sorted(SOURCE.rglob("*.py")):
        if path.relative_to(SOURCE).parts[0] in ("kernel", "storage", "extensions"):
            continue
        tree = ast.parse(path.read_text(encoding="utf-8"))
        imported = {
            alias.name
            for node in ast.walk(tree)
            if isinstance(node, ast.ImportFrom) and node.module == "finclaw.kernel.extension"
            for alias in node.names
        }
        if not imported & {"Database", "Transaction"}:
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "execute":
                found[str(path), node.lineno] = range(node.lineno, (node.end_lineno or node.lineno) + 1)
    return found


async def use_notes(notes: NoteStore) -> None:
    """Save, renew, find and forget, in both languages."""
    texts = ("I hedge my dollars", "삼성전자를 좋아한다", "환율 알림은 1,400원부터", "...")
    for number, text in enumerate(texts):
        await notes.save("ada", text, NOW + timedelta(minutes=number), ("https://example.com",) if number else ())
    await notes.save("bob", "비밀 번호", NOW)
    assert (await notes.save("ada", "I hedge my dollars!", NOW + timedelta(days=1))).number == 1
    await notes.save("ada", "삼성전자를 좋아한다", NOW, ("https://example.org",))
    assert [note.text for note in await notes.search("ada", "is it hedged in dollars?", 5)] == ["I hedge my dollars!"]
    assert [note.number for note in await notes.search("ada", "삼성전자의 환율", 1)] == [2]
    assert list(await notes.search("ada", "비밀 번호가 뭐야", 5)) == []
    found = await notes.find("ada", 2)
    assert (found and found.sources) == ("https://example.com",)
    page, total = await notes.latest("ada", 2, 1)
    assert ([note.number for note in page], total) == ([4, 3], 4)
    assert [each.owner for each in await notes.everybodys()] == ["ada"] * 4 + ["bob"]
    assert [each.note.text for each in await notes.everybodys("bob")] == ["비밀 번호"]
    assert (await notes.forget("ada", 2), await notes.forget("ada", 2)) == (True, False)
    assert list(await notes.search("ada", "삼성전자", 5)) == []
    assert await notes.owner_of(Person(id="ada", former=("bob", "nobody"))) == "ada"
    assert [note.text for note in await notes.search("ada", "비밀 번호가 뭐야", 5)] == ["비밀 번호"]
    assert (await notes.clear("ada"), await notes.forget_owner("ada")) == (4, 0)
    assert list(await notes.everybodys()) == []


async def use_pins(database: Database) -> None:
    """Two pins of an earlier release that are one name here, then a definition that is seen, changed and approved."""
    columns = "server, tool, pinned, pinned_text, offered, offered_text, offered_at, is_read"
    for tool, is_read in (("get.time", 0), ("get_time", 1)):
        values = ("clock", tool, "old", "old", "old", "old", NOW.isoformat(), is_read)
        await database.execute(f"INSERT INTO pins ({columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", *values)
    pins = Pins(database)
    definition = Definition("get_time", "Tells the time.", {"type": "object", "properties": {}})
    shown = ReadTool(definition, definition.digest(), definition.text())
    seen = await pins.see("clock", [shown], NOW, trust_new=True)
    assert [(pin.state, pin.tool) for pin in seen.values()] == [("changed", "get_time")]
    await pins.approve("clock", "get_time", shown.digest[:12])
    assert [(pin.state, pin.pinned, pin.offered_text) for pin in await pins.every()] == [
        ("pinned", shown.digest, shown.text)
    ]


async def use_choices(database: Database) -> None:
    """A name is settled, settled anew and forgotten, by one person of two."""
    choices = NameChoices(database, FakeClock())
    for person, symbol in (("ada", "GOOG"), ("bob", "GOOG"), ("ada", "GOOGL")):
        await choices.keep(person, "google", symbol)
    assert await choices.find("ada", ["alphabet", "google"]) == "GOOGL"
    await choices.drop("ada", "google")
    assert await choices.find("ada", ["google"]) is None
    await choices.forget("bob")
    assert await choices.find("bob", ["google"]) is None


async def use_market_data(database: Database) -> None:
    """A request is counted twice, a price is kept and replaced, and a token is asked for once and given up."""
    clock, source = FakeClock(), SOURCES["naver"]
    budget = RequestBudget(database, clock)
    for _ in range(2):
        await budget.take(source, "people")
    for price in (Decimal(70_000), Decimal(80_000)):
        await LastPrices(database).remember({"005930": (price, NOW)})
    kept = LastPrices(database)
    await kept.load()
    assert kept.find("005930") == 80_000

    async def request() -> TokenAnswer:
        return TokenAnswer("token-of-the-day", 86_400)

    tokens = TokenStore(database, clock)
    assert (await tokens.get(source, request)).reveal() == "token-of-the-day"
    await tokens.forget(source)


async def use_watchlists(database: Database) -> None:
    """Add, take over, list, remove and forget."""
    lists = Watchlists(database, FakeClock(NOW))
    await lists.add(Person(id="before"), ["TSLA"])
    ada = Person(id="ada", former=("before",))
    assert await lists.add(ada, ["AAPL", "005930", "AAPL"]) == ("AAPL", "005930")
    assert await lists.symbols(ada) == ("TSLA", "AAPL", "005930")
    assert await lists.remove(ada, ["AAPL"]) == ("AAPL",)
    await lists.forget("ada")
    assert await lists.symbols(ada) == ()
