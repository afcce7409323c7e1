"""The audit of busy conversations finds each broken promise in made-up records, and condemns no good ones."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import msgspec
import pytest
from tests.chaos.audit import Books, Entry
from tests.chaos.busy_audit import BusyVerdict, audit_busy
from tests.chaos.busy_child import write_answer
from tests.support.history import Acked, HistoryEvent, InboundRow, ReplySeen, Rows, SentIn, TurnRow, UnitRow

from finclaw.kernel.message import Message, Source, Text, ToolCall

NOW = datetime(2026, 1, 1, tzinfo=UTC)


def entry(
    n: int, outcome: str, *, host: int | None = None, text: str = "", sender: str = "ada", why: str = ""
) -> Entry:
    row = InboundRow(
        id=f"i{n}",
        message_id=f"m{n}",
        session="s",
        ticket=n,
        outcome=outcome,
        joined_to=None if host is None else f"i{host}",
    )
    return Entry(row, text or f"n={n}", "ended", 1, "delivered", sender=sender, reason=why)


def unit(n: int, *, turn: bool = True, state: str = "sent") -> UnitRow:
    return UnitRow(id=f"u{n}", inbound_id=f"i{n}", turn_id=f"t{n}" if turn else None, seq=0, state=state)


def seen(n: int, text: str) -> ReplySeen:
    return ReplySeen("g", f"m{n}", f"u{n}", text)


def said(n: int) -> Message:
    return Message(f"w{n}", "user", (Text(f"n={n}"),), Source("user", "x"), NOW)


ENTRIES = (
    entry(1, "answered"),
    entry(2, "joined", host=1, why="answered with message i1"),  # it steered
    entry(3, "answered", sender="bob"),
    entry(4, "joined", why="answered with message i5"),  # collected: the answer is shown with the last
    entry(5, "answered", host=4),
    entry(6, "stopped", why="stopped by the person"),
    entry(7, "command", text="/stop"),
    entry(8, "stopped", why="interrupted by message i10"),
    entry(9, "answered"),
    entry(10, "answered", text="/queue interrupt n=10"),
)
EVENTS: tuple[HistoryEvent, ...] = (
    *(SentIn("g", n, f"m{n}") for n in range(1, 11)),
    *(Acked(f"m{n}") for n in range(1, 11)),
    seen(1, write_answer([1, 2])),
    seen(3, write_answer([3])),
    seen(4, write_answer([4, 5])),
    seen(6, "<6 is"),
    seen(7, "Stopped."),
    seen(8, "<8 is"),
    seen(10, write_answer([10])),
    seen(9, write_answer([9])),
)
BOOKS = Books(
    rows=Rows(
        inbound=tuple(each.row for each in ENTRIES),
        turns=tuple(TurnRow(id=f"t{n}", inbound_id=f"i{n}") for n in (1, 3, 4, 6, 8, 9, 10)),
        units=(*map(unit, (1, 3, 4, 6)), unit(7, turn=False), *map(unit, (8, 9, 10))),
    ),
    entries=ENTRIES,
    turn_sessions={},
    transcripts={"s": tuple(map(said, (1, 2, 3, 4, 5, 6, 8, 10, 9)))},
    log_left=0,
)


def with_entries(*changed: Entry) -> Books:
    """The books with these entries in the place of the good ones."""
    by_id = {each.row.id: each for each in (*ENTRIES, *changed)}
    entries = tuple(by_id.values())
    return replace(
        BOOKS, entries=entries, rows=msgspec.structs.replace(BOOKS.rows, inbound=tuple(e.row for e in entries))
    )


def with_rows(**changes: Sequence[object]) -> Books:
    return replace(BOOKS, rows=msgspec.structs.replace(BOOKS.rows, **changes))


def remembering(*numbers: int) -> Books:
    return replace(BOOKS, transcripts={"s": tuple(map(said, numbers))})


def in_order(*tokens: int) -> tuple[HistoryEvent, ...]:
    """The history with its replies in another order; those that are not named were not seen."""
    replies = {each.token: each for each in EVENTS if isinstance(each, ReplySeen)}
    others = [each for each in EVENTS if not isinstance(each, ReplySeen)]
    return (*others, *(replies[f"u{n}"] for n in tokens))


def telling(n: int, text: str) -> tuple[HistoryEvent, ...]:
    return tuple(seen(n, text) if isinstance(each, ReplySeen) and each.token == f"u{n}" else each for each in EVENTS)


def audit(events: Sequence[HistoryEvent] = EVENTS, books: Books = BOOKS) -> BusyVerdict:
    return audit_busy(events, books)


def test_good_records_have_no_fault() -> None:
    found = audit()
    assert found.faults == []
    assert found.outcomes == {"answered": 5, "joined": 2, "stopped": 2, "command": 1}


BROKEN: dict[str, tuple[Callable[[], BusyVerdict], str]] = {
    "no end": (
        lambda: audit(
            books=with_entries(replace(ENTRIES[0], row=msgspec.structs.replace(ENTRIES[0].row, outcome=None)))
        ),
        "lost: message m1 was accepted and has no outcome",
    ),
    "an end that does not fit": (
        lambda: audit(books=with_entries(entry(3, "failed", sender="bob", why="broken"))),
        "lost: message m3 (n=3) ended failed: broken",
    ),
    "left out of a line that was not full": (
        lambda: audit(books=with_entries(entry(2, "dropped", why="left out"))),
        "lost: message m2 (n=2) ended dropped: left out",
    ),
    "joined, and names nobody": (
        lambda: audit(books=with_entries(entry(2, "joined", host=1))),
        "lost: message m2 is called joined and names no message: ''",
    ),
    "joined, and names one that was stopped": (
        lambda: audit(books=with_entries(entry(2, "joined", host=1, why="answered with message i6"))),
        "lost: message m2 names m6, which ended stopped",
    ),
    "joined, and names one of another turn": (
        lambda: audit(books=with_entries(entry(2, "joined", host=1, why="answered with message i3"))),
        "lost: message m2 names m3, which another turn answered",
    ),
    "joined a turn that is not there": (
        lambda: audit(books=with_entries(entry(2, "joined", host=7, why="answered with message i1"))),
        "lost: message m2 joined the turn of i7, which has none",
    ),
    "not in the answer that covers it": (
        lambda: audit(telling(1, write_answer([1]))),
        f"lost: the turn of m1, which answers [1, 2], told {write_answer([1])!r}",
    ),
    "an answer that was cut off": (
        lambda: audit(telling(3, "<3 is")),
        "lost: the turn of m3, which answers [3], told '<3 is'",
    ),
    "not in the conversation": (
        lambda: audit(books=remembering(1, 3, 4, 5, 6, 8, 10, 9)),
        "lost: s does not remember [2]",
    ),
    "a part that is still on its way": (
        lambda: audit(books=with_rows(units=(*BOOKS.rows.units[:-1], unit(10, state="planned")))),
        "lost: unit u10 is planned with 0 doubts",
    ),
    "a turn that was never folded": (
        lambda: audit(books=replace(BOOKS, log_left=3)),
        "lost: 3 events of turns were never folded",
    ),
    "joined, with a turn of its own": (
        lambda: audit(books=with_rows(turns=(*BOOKS.rows.turns, TurnRow(id="t2", inbound_id="i2")))),
        "doubled: message m2 joined the turn of i1 and had one of its own",
    ),
    "two answered by one turn": (
        lambda: audit(books=with_entries(entry(2, "answered", host=1))),
        "doubled: the turn of m1 is called the answer to each of m1, m2",
    ),
    "answered by two turns": (
        lambda: audit(telling(9, write_answer([2]))),
        "doubled: number 2 was answered by the turns of m1, m9",
    ),
    "twice in the conversation": (
        lambda: audit(books=remembering(1, 2, 2, 3, 4, 5, 6, 8, 10, 9)),
        "doubled: s remembers number 2 2 times",
    ),
    "a call without a result": (
        lambda: audit(books=replace(BOOKS, transcripts={"s": (*BOOKS.transcripts["s"], CALLING)})),
        "doubled: s has calls Counter({'k': 1}) without results and results Counter() without calls",
    ),
    "overtaken in the conversation": (
        lambda: audit(books=remembering(1, 2, 4, 3, 5, 6, 8, 10, 9)),
        "out of order: s remembers m3 after m4",
    ),
    "overtaken by an answer": (
        lambda: audit(in_order(1, 4, 3, 6, 7, 8, 10, 9)),
        "out of order: in s the answer to m3 was seen after that to m4",
    ),
    "another's message overtaken by one that interrupts": (
        lambda: audit(books=with_entries(entry(9, "answered", sender="bob"))),
        "out of order: in s the answer to m9 was seen after that to m10",
    ),
    "a ticket that is missing": (
        lambda: audit(books=with_entries(replace(ENTRIES[8], row=msgspec.structs.replace(ENTRIES[8].row, ticket=11)))),
        "out of order: the tickets of s are [1, 2, 3, 4, 5, 6, 7, 8, 10, 11]",
    ),
    "joined another's turn": (
        lambda: audit(books=with_entries(replace(ENTRIES[1], sender="bob"))),
        "merged: message m2 joined the turn of m1, which is another's",
    ),
    "two people in one answer": (
        lambda: audit(telling(3, write_answer([2, 3]))),
        "merged: one answer names m2, m3, which several people wrote",
    ),
    "seen after a stop": (
        lambda: audit(in_order(1, 3, 4, 7, 6, 8, 10, 9)),
        "unstopped: '<6 is' was seen after stop m7 was answered",
    ),
    "seen after what interrupted it": (
        lambda: audit(in_order(1, 3, 4, 6, 7, 10, 8, 9)),
        "unstopped: '<8 is' was seen after the answer to i10, which interrupted it, had begun",
    ),
    "stopped by nobody": (
        lambda: audit(books=with_entries(entry(3, "stopped", sender="bob", why="stopped by the person"))),
        "unstopped: message m3 was stopped by nobody: stopped by the person",
    ),
    "an answer to nothing": (
        lambda: audit((*EVENTS, seen(77, "<77 is all. 77>"))),
        "orphaned: a reply with token u77 in g belongs to no unit",
    ),
    "seen twice without a doubt": (
        lambda: audit((*EVENTS, seen(9, write_answer([9])))),
        "doubled: unit u9 was seen 2 times with 0 doubts on record",
    ),
}
CALLING = Message("c", "assistant", (ToolCall("k", "busy__look"),), Source("assistant"), NOW)


@pytest.mark.parametrize("name", BROKEN)
def test_each_broken_promise_is_found(name: str) -> None:
    find, fault = BROKEN[name]
    assert fault in find().faults


def test_an_answer_that_its_reader_stopped_may_end_early() -> None:
    stop = entry(11, "command", text="중지")
    entries = (*ENTRIES, stop)
    units = (
        *BOOKS.rows.units,
        *(msgspec.structs.replace(unit(9, state="superseded"), id=f"x{n}", seq=n) for n in (1, 2)),
    )
    rows = msgspec.structs.replace(BOOKS.rows, inbound=tuple(each.row for each in entries), units=units)
    books = replace(BOOKS, entries=entries, rows=rows)
    events = [*telling(9, "<9 is"), SentIn("g", 11, "m11"), Acked("m11")]
    assert audit(events, books).faults == []
    assert audit(events, replace(books, entries=(*ENTRIES, replace(stop, sender="bob")))).lost


def test_lines_that_were_full_leave_messages_out() -> None:
    books = with_entries(entry(2, "dropped", why="left out"))
    found = audit_busy(telling(1, write_answer([1])), books, may_drop=True)
    assert found.faults == []
