"""The judge: each sin found once in the right list, and no innocent history condemned."""

from itertools import pairwise
from pathlib import Path
from random import Random

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.support.checker import Verdict, judge
from tests.support.history import (
    Acked,
    History,
    HistoryEvent,
    InboundRow,
    ReplySeen,
    Rows,
    SentIn,
    TurnRow,
    UnitRow,
    read_history,
)

# ── histories by hand ───────────────────────────────────────────────────────────────────────────────────────


def row(n: int, outcome: str | None = "answered") -> InboundRow:
    return InboundRow(id=f"i{n}", message_id=f"m{n}", session="s", ticket=n, outcome=outcome)


def unit(n: int, *, state: str = "sent", doubts: int = 0, turn: str | None = None) -> UnitRow:
    return UnitRow(id=f"u{n}", inbound_id=f"i{n}", turn_id=turn or f"t{n}", seq=0, state=state, doubts=doubts)


def seen(n: int, attempt: int = 1) -> ReplySeen:
    return ReplySeen("c", f"m{n}", f"u{n}", "text", attempt)


ASKED: list[HistoryEvent] = [SentIn("c", 1, "m1"), SentIn("c", 2, "m2"), Acked("m1"), Acked("m2")]
GOOD = Rows(
    inbound=(row(1), row(2)),
    turns=(TurnRow(id="t1", inbound_id="i1"), TurnRow(id="t2", inbound_id="i2")),
    units=(unit(1), unit(2)),
)


def counts(verdict: Verdict) -> tuple[int, int, int, int]:
    return tuple(len(sins) for sins in msgspec.structs.astuple(verdict))  # pyright: ignore[reportReturnType]


def test_a_good_history():
    verdict = judge([*ASKED, seen(1), seen(2)], GOOD)
    assert verdict.ok
    assert str(verdict) == "nothing lost, duplicated, out of order or orphaned"


def with_rows(**changes: tuple[object, ...]) -> Rows:
    return msgspec.structs.replace(GOOD, **changes)


SINS = {
    "acknowledged, not stored": (
        [*ASKED, seen(2)],
        with_rows(inbound=(row(2),), turns=(), units=(unit(2),)),
        "lost: message m1 was acknowledged and is not in the database",
    ),
    "accepted, no outcome": (
        [*ASKED, seen(1)],
        with_rows(inbound=(row(1), row(2, None)), units=(unit(1),)),
        "lost: message m2 was accepted and has no outcome",
    ),
    "answered without a unit": (
        [*ASKED, seen(1)],
        with_rows(units=(unit(1),)),
        "lost: message m2 is called answered and has no reply",
    ),
    "sent but never seen": ([*ASKED, seen(2)], GOOD, "lost: unit u1 for message m1 is sent and was never seen"),
    "left in the outbox": (
        [*ASKED, seen(1)],
        with_rows(units=(unit(1), unit(2, state="planned"))),
        "lost: unit u2 for message m2 is planned and was never seen",
    ),
    "seen twice": (
        [*ASKED, seen(1), seen(1, 2), seen(2)],
        GOOD,
        "duplicated: unit u1 was seen 2 times with 0 doubts on record",
    ),
    "seen three times with one doubt": (
        [*ASKED, seen(1), seen(1, 2), seen(1, 3), seen(2)],
        with_rows(units=(unit(1, doubts=1), unit(2))),
        "duplicated: unit u1 was seen 3 times with 1 doubts on record",
    ),
    "accepted twice": (
        [*ASKED, seen(1), seen(2)],
        with_rows(inbound=(row(1), row(2), msgspec.structs.replace(row(2, "skipped"), id="i3"))),
        "duplicated: message m2 was accepted 2 times",
    ),
    "answered by two turns": (
        [*ASKED, seen(1), ReplySeen("c", "m1", "x", "text"), seen(2)],
        with_rows(units=(*GOOD.units, msgspec.structs.replace(unit(1, turn="t9"), id="x", seq=1))),
        "duplicated: inbound i1 was answered by 2 turns: t1, t9",
    ),
    "overtaken": (
        [*ASKED, seen(2), seen(1)],
        GOOD,
        "out of order: unit u1 (message 1, part 0) came after message 2, part 0 of c",
    ),
    "unit of nothing": (
        [*ASKED, seen(1), seen(2)],
        with_rows(units=(*GOOD.units, unit(3, state="dead"))),
        "orphaned: unit u3 belongs to inbound i3, which does not exist",
    ),
    "turn of nothing": (
        [*ASKED, seen(1), seen(2)],
        with_rows(turns=(*GOOD.turns, TurnRow(id="t3", inbound_id="i3"))),
        "orphaned: turn t3 belongs to inbound i3, which does not exist",
    ),
    "reply of nothing": (
        [*ASKED, seen(1), seen(2), seen(3)],
        GOOD,
        "orphaned: a reply with token u3 in c belongs to no unit",
    ),
    "message nobody wrote": (
        [*ASKED, seen(1), seen(2)],
        with_rows(inbound=(*GOOD.inbound, row(3, "skipped"))),
        "orphaned: inbound i3 is of message m3, which nobody wrote",
    ),
    "reply to another conversation": (
        [*ASKED, seen(1), ReplySeen("d", "m2", "u2", "text")],
        GOOD,
        "orphaned: unit u2 answers c and was seen in d",
    ),
}


@pytest.mark.parametrize(("events", "rows", "sin"), SINS.values(), ids=SINS.keys())
def test_each_sin_is_told_once(events: list[HistoryEvent], rows: Rows, sin: str):
    verdict = judge(events, rows)
    assert str(verdict) == sin
    assert not verdict.ok


def test_what_is_no_sin():
    resent = judge([*ASKED, seen(1), seen(1, 2), seen(2)], with_rows(units=(unit(1, doubts=1), unit(2))))
    dead = judge([*ASKED, seen(2)], with_rows(units=(unit(1, state="dead"), unit(2))))
    silent = judge([*ASKED, seen(2)], with_rows(inbound=(row(1, "skipped"), row(2)), units=(unit(2),)))
    unacked = judge([*ASKED, SentIn("c", 3, "m3"), seen(1), seen(2)], GOOD)
    resent_late = judge([*ASKED, seen(1), seen(2), seen(1, 2)], with_rows(units=(unit(1, doubts=1), unit(2))))
    assert all(verdict.ok for verdict in (resent, dead, silent, unacked, resent_late))


def test_a_question_asked_again_belongs_to_the_first():
    again = InboundRow(id="i3", message_id="again", session="s", ticket=3, outcome="answered", reissue_of="i1")
    rows = with_rows(inbound=(*GOOD.inbound, again), units=(unit(1, state="expired"), unit(2), unit(3)))
    assert judge([*ASKED, seen(2), ReplySeen("c", "m1", "u3", "fresh")], rows).ok


def test_a_history_comes_back_from_its_file(tmp_path: Path):
    events = [*ASKED, seen(1), ReplySeen("대화", None, "u9", "삼성전자\n71,000원", 2)]
    path = tmp_path / "history.jsonl"
    for half in (events[:3], events[3:]):
        with History(path) as history:
            for event in half:
                history.write(event)
            assert history.events == half
    assert read_history(path) == events
    assert path.read_text("utf-8").splitlines()[0] == '{"type":"sent_in","conversation":"c","n":1,"message_id":"m1"}'


# ── histories by simulation ─────────────────────────────────────────────────────────────────────────────────


def simulate(rng: Random) -> tuple[list[HistoryEvent], Rows]:
    """A gateway that keeps its promises: lanes in order, several at once, a few crashes in the middle of a send."""
    lanes: list[list[HistoryEvent]] = []
    inbound: list[InboundRow] = []
    units: list[UnitRow] = []
    for lane in range(rng.randint(1, 4)):
        events: list[HistoryEvent] = []
        for n in range(1, rng.randint(1, 5) + 1):
            name = f"{lane}-{n}"
            outcome = rng.choice(["answered", "answered", "answered", "skipped"])
            events += [SentIn(f"c{lane}", n, f"m{name}"), Acked(f"m{name}")]
            inbound.append(
                InboundRow(id=f"i{name}", message_id=f"m{name}", session=f"s{lane}", ticket=n, outcome=outcome)
            )
            for seq in range(rng.randint(1, 3) if outcome == "answered" else 0):
                doubts = rng.choice([0, 0, 0, 1])
                token = f"u{name}-{seq}"
                units.append(
                    UnitRow(id=token, inbound_id=f"i{name}", turn_id=f"t{name}", seq=seq, state="sent", doubts=doubts)
                )
                events += [ReplySeen(f"c{lane}", f"m{name}", token, "text", k + 1) for k in range(doubts + 1)]
        lanes.append(events)
    turns = tuple(TurnRow(id=f"t{each.id[1:]}", inbound_id=each.id) for each in inbound if each.outcome == "answered")
    return interleave(lanes, rng), Rows(inbound=tuple(inbound), turns=turns, units=tuple(units))


def interleave(lanes: list[list[HistoryEvent]], rng: Random) -> list[HistoryEvent]:
    order = [lane for lane, events in enumerate(lanes) for _ in events]
    rng.shuffle(order)
    steps = [iter(events) for events in lanes]
    return [next(steps[lane]) for lane in order]


seeds = st.integers(0, 2**32)


@given(seeds)
def test_a_correct_run_is_innocent(seed: int):
    verdict = judge(*simulate(Random(seed)))
    assert verdict.ok, str(verdict)


def replies(events: list[HistoryEvent]) -> list[int]:
    return [place for place, event in enumerate(events) if isinstance(event, ReplySeen)]


@given(seeds)
def test_any_reply_dropped_is_found(seed: int):
    events, rows = simulate(Random(seed))
    for token in {event.token for event in events if isinstance(event, ReplySeen)}:
        without = [event for event in events if not (isinstance(event, ReplySeen) and event.token == token)]
        assert counts(judge(without, rows)) == (1, 0, 0, 0)


@given(seeds)
def test_any_reply_duplicated_is_found(seed: int):
    events, rows = simulate(Random(seed))
    for place in replies(events):
        assert counts(judge([*events, events[place]], rows)) == (0, 1, 0, 0)


@given(seeds)
def test_any_two_replies_swapped_are_found(seed: int):
    events, rows = simulate(Random(seed))
    for lane in {event.conversation for event in events if isinstance(event, ReplySeen)}:
        places = first_showings(events, lane)
        for one, other in pairwise(places):
            swapped = list(events)
            swapped[one], swapped[other] = swapped[other], swapped[one]
            lost, duplicated, out_of_order, orphaned = counts(judge(swapped, rows))
            assert (lost, duplicated, orphaned) == (0, 0, 0)
            assert out_of_order >= 1


def first_showings(events: list[HistoryEvent], lane: str) -> list[int]:
    first: dict[str, int] = {}
    for place, event in enumerate(events):
        if isinstance(event, ReplySeen) and event.conversation == lane:
            first.setdefault(event.token, place)
    return list(first.values())
