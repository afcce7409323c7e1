"""A checker of histories: what the outside saw and what the database holds give every broken promise.

    lost          acknowledged or accepted, and nothing came of it
    duplicated    seen or answered more often than a recorded doubt excuses
    out of order  a reply seen before the reply to an earlier message of its conversation
    orphaned      something that belongs to nothing

Pure functions, so a history can be judged again long after the run. Each sin is told once, in the one list that
names its cause.
"""

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct
from tests.support.history import Acked, HistoryEvent, InboundRow, ReplySeen, Rows, SentIn, UnitRow

NEVER_SHOWN = frozenset({"dead", "expired", "superseded"})
"""Units in these states were given up on the record; silence is then no loss."""


class Verdict(Struct, frozen=True, kw_only=True):
    """The broken promises that were found, by kind; all empty: there are none."""

    lost: tuple[str, ...] = ()
    duplicated: tuple[str, ...] = ()
    out_of_order: tuple[str, ...] = ()
    orphaned: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return not (self.lost or self.duplicated or self.out_of_order or self.orphaned)

    def __str__(self) -> str:
        lines = [
            f"{name}: {sin}"
            for name, sins in (
                ("lost", self.lost),
                ("duplicated", self.duplicated),
                ("out of order", self.out_of_order),
                ("orphaned", self.orphaned),
            )
            for sin in sins
        ]
        return "\n".join(lines) or "nothing lost, duplicated, out of order or orphaned"


def judge(events: Sequence[HistoryEvent], rows: Rows) -> Verdict:
    case = _Case(events, rows)
    return Verdict(
        lost=tuple(_find_lost(case)),
        duplicated=tuple(_find_duplicates(case)),
        out_of_order=tuple(_out_of_order(case)),
        orphaned=tuple(_find_orphans(case)),
    )


class _Case:
    """The evidence, looked up by what belongs together."""

    def __init__(self, events: Sequence[HistoryEvent], rows: Rows) -> None:
        self.sent = {event.message_id: event for event in events if isinstance(event, SentIn)}
        self.acked = [event.message_id for event in events if isinstance(event, Acked)]
        self.replies = [event for event in events if isinstance(event, ReplySeen)]
        self.seen = Counter(reply.token for reply in self.replies)
        self.rows = rows
        self.inbound = {row.id: row for row in rows.inbound}
        self.units = {unit.id: unit for unit in rows.units}
        self.units_of: defaultdict[str, list[UnitRow]] = defaultdict(list)
        for unit in rows.units:
            self.units_of[unit.inbound_id].append(unit)

    def question(self, reply: ReplySeen) -> SentIn | None:
        """What a reply answers. The database knows; what the reply itself says is only the second best."""
        unit = self.units.get(reply.token)
        row = self.inbound.get(unit.inbound_id) if unit else None
        return self.sent.get(row.message_id if row else reply.reply_to or "")

    def first_showings(self) -> Iterator[ReplySeen]:
        known: set[str] = set()
        for reply in self.replies:
            if reply.token not in known:
                known.add(reply.token)
                yield reply


def _find_lost(case: _Case) -> Iterator[str]:
    stored = {row.message_id for row in case.rows.inbound}
    for message_id in dict.fromkeys(case.acked):
        if message_id not in stored:
            yield f"message {message_id} was acknowledged and is not in the database"
    for row in case.rows.inbound:
        yield from _lost_after_accept(row, case)


def _lost_after_accept(row: InboundRow, case: _Case) -> Iterator[str]:
    if row.outcome is None:
        yield f"message {row.message_id} was accepted and has no outcome"
        return
    units = case.units_of[row.id]
    if row.outcome == "answered" and not (units or case.units_of[row.joined_to or row.id]):
        yield f"message {row.message_id} is called answered and has no reply"
    for unit in units:
        if not case.seen[unit.id] and unit.state not in NEVER_SHOWN:
            yield f"unit {unit.id} for message {row.message_id} is {unit.state} and was never seen"


def _find_duplicates(case: _Case) -> Iterator[str]:
    for message_id, times in Counter(row.message_id for row in case.rows.inbound).items():
        if times > 1:
            yield f"message {message_id} was accepted {times} times"
    for unit in case.rows.units:
        if case.seen[unit.id] > 1 + unit.doubts:
            yield f"unit {unit.id} was seen {case.seen[unit.id]} times with {unit.doubts} doubts on record"
    for inbound_id, turns in _turns_seen(case).items():
        if len(turns) > 1:
            yield f"inbound {inbound_id} was answered by {len(turns)} turns: {', '.join(sorted(turns))}"


def _turns_seen(case: _Case) -> dict[str, set[str]]:
    turns: defaultdict[str, set[str]] = defaultdict(set)
    for token in case.seen:
        unit = case.units.get(token)
        if unit is not None and unit.turn_id is not None:
            turns[unit.inbound_id].add(unit.turn_id)
    return turns


def _out_of_order(case: _Case) -> Iterator[str]:
    newest: dict[str, tuple[int, int]] = {}
    for reply in case.first_showings():
        question = case.question(reply)
        if question is None:
            continue
        unit = case.units.get(reply.token)
        place = (question.n, unit.seq if unit else 0)
        before = newest.get(reply.conversation, place)
        if place < before:
            where = f"message {before[0]}, part {before[1]} of {reply.conversation}"
            yield f"unit {reply.token} (message {place[0]}, part {place[1]}) came after {where}"
        newest[reply.conversation] = max(place, before)


def _find_orphans(case: _Case) -> Iterator[str]:
    for row in case.rows.inbound:
        if row.message_id not in case.sent and row.reissue_of not in case.inbound:
            yield f"inbound {row.id} is of message {row.message_id}, which nobody wrote"
    yield from _without_inbound("unit", ((unit.id, unit.inbound_id) for unit in case.rows.units), case)
    yield from _without_inbound("turn", ((turn.id, turn.inbound_id) for turn in case.rows.turns), case)
    for reply in case.first_showings():
        if reply.token not in case.units:
            yield f"a reply with token {reply.token} in {reply.conversation} belongs to no unit"
        elif (question := case.question(reply)) is not None and question.conversation != reply.conversation:
            yield f"unit {reply.token} answers {question.conversation} and was seen in {reply.conversation}"


def _without_inbound(kind: str, pairs: Iterable[tuple[str, str]], case: _Case) -> Iterator[str]:
    for own_id, inbound_id in pairs:
        if inbound_id not in case.inbound:
            yield f"{kind} {own_id} belongs to inbound {inbound_id}, which does not exist"
