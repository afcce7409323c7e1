"""The audit of busy conversations: turns that answer several messages, messages that stop, interrupt and edit others.

Pure functions of the history and the books, so that `test_busy_audit.py` can show that each broken promise is found.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from tests.chaos.audit import Books, Entry
from tests.chaos.busy_child import number_in, write_answer
from tests.support.checker import judge
from tests.support.history import HistoryEvent, ReplySeen, UnitRow

from finclaw.delivery.format import RESENT_MARK
from finclaw.delivery.outbox import MAX_DOUBTS
from finclaw.tools.unsourced_figures import NO_SOURCE

STOPS: Final = frozenset({"/stop", "stop", "중지"})
"""What people write here to stop an answer."""

_NAMED: Final = re.compile(r"<([\d+]+) |of ([\d+]+)\.|([\d+]+)>")
_NAMES_ANOTHER: Final = re.compile(r"answered with message ([^\s;]+)(?:; its answer was withdrawn: .+)?")
_SETTLED: Final = frozenset({"sent", "dead", "superseded", "expired"})
_LEFT_OUT: Final = "messages of mine were left out"


@dataclass(frozen=True)
class BusyVerdict:
    """The broken promises that were found, by kind, and what became of the messages."""

    lost: tuple[str, ...]
    doubled: tuple[str, ...]
    out_of_order: tuple[str, ...]
    merged: tuple[str, ...]
    """Across senders or conversations."""
    unstopped: tuple[str, ...]
    """Seen although it was stopped, or stopped by nobody."""
    orphaned: tuple[str, ...]
    outcomes: Counter[str]
    repeats: int
    """How often somebody saw a part once more, with a doubt on record."""

    @property
    def faults(self) -> list[str]:
        kinds = ("lost", "doubled", "out_of_order", "merged", "unstopped", "orphaned")
        return [f"{kind.replace('_', ' ')}: {fault}" for kind in kinds for fault in getattr(self, kind)]

    def __str__(self) -> str:
        return "\n".join(self.faults) or "nothing broken"


def audit_busy(
    events: Sequence[HistoryEvent], books: Books, *, mode: str = "auto", may_drop: bool = False
) -> BusyVerdict:
    """`mode` is that of messages which name none; `may_drop`: lines may have been full."""
    case = _Case(events, books, mode)
    basics = judge(events, books.rows)
    return BusyVerdict(
        lost=(*basics.lost, *_find_open(case), *_find_bad_ends(case, may_drop=may_drop), *_find_untold(case)),
        doubled=(*basics.duplicated, *_find_doubled(case)),
        out_of_order=tuple(_find_overtaking(case)),
        merged=tuple(_find_merged(case)),
        unstopped=tuple(_find_unstopped(case)),
        orphaned=basics.orphaned,
        outcomes=Counter(str(entry.row.outcome) for entry in books.entries),
        repeats=len(case.replies) - len({reply.token for reply in case.replies}),
    )


class _Case:
    """The evidence, looked up by what belongs together."""

    def __init__(self, events: Sequence[HistoryEvent], books: Books, mode: str) -> None:
        self.books = books
        self.mode = mode
        self.replies = [event for event in events if isinstance(event, ReplySeen)]
        self.entries = {entry.row.id: entry for entry in books.entries}
        self.units = {unit.id: unit for unit in books.rows.units}
        self.with_turn = {turn.inbound_id for turn in books.rows.turns}
        self.joined: defaultdict[str, list[Entry]] = defaultdict(list)
        for entry in sorted(books.entries, key=lambda each: each.row.ticket):
            if entry.row.joined_to is not None:
                self.joined[entry.row.joined_to].append(entry)
        self.parts: defaultdict[str, list[UnitRow]] = defaultdict(list)
        for unit in sorted(books.rows.units, key=lambda each: each.seq):
            if unit.turn_id is not None and not unit.is_preview:
                self.parts[unit.inbound_id].append(unit)
        self.texts: dict[str, str] = {}
        for reply in self.replies:
            text = reply.text.removeprefix(RESENT_MARK).partition(f"\n\n{NO_SOURCE['en']}")[0]  # numbers are figures
            self.texts.setdefault(reply.token, text)
        self.by_number = {n: each for each in books.entries if (n := self.number_of(each)) is not None}

    def number_of(self, entry: Entry) -> int | None:
        """None for what asks nothing: a stop, a deletion, an edit whose words another message has taken over."""
        is_question = entry.row.outcome != "skipped" and entry.kind != "delete"
        return number_in(entry.text) if is_question else None

    def of_turn(self, host: Entry) -> list[Entry]:
        return [host, *self.joined[host.row.id]]

    def hosts(self) -> Iterator[Entry]:
        """Those whose turn it was."""
        return (entry for entry in self.books.entries if entry.row.joined_to is None and entry.row.id in self.with_turn)

    def host_of(self, reply: ReplySeen) -> Entry | None:
        """The message whose turn said a part of an answer; None for what the gateway says by itself."""
        unit = self.units.get(reply.token)
        is_answer = unit is not None and unit.turn_id is not None and bool(numbers_named(reply.text))
        return self.entries.get(unit.inbound_id) if unit is not None and is_answer else None

    def interrupts(self, entry: Entry) -> bool:
        """Whether it stops the turn of its sender and passes what else of theirs waits. One that was edited may have
        had another mode before."""
        if entry.kind not in ("message", "edit"):
            return False
        directive = re.match(r"/queue (\S+)", entry.text)
        return entry.is_edited or (self.mode if directive is None else directive[1]) == "interrupt"

    def may_pass(self, entry: Entry) -> bool:
        """Whether it may come before what else of its sender waits: by itself, or by the turn that it joined."""
        host = self.entries.get(entry.row.joined_to or "")
        return self.interrupts(entry) or (host is not None and self.interrupts(host))

    def later_of_sender(self, entry: Entry) -> Iterator[Entry]:
        for each in self.books.entries:
            same = (each.row.session, each.sender) == (entry.row.session, entry.sender)
            if same and each.row.ticket > entry.row.ticket:
                yield each

    def was_stopped_by_person(self, entry: Entry) -> bool:
        return any(is_stop(each) for each in self.later_of_sender(entry))


def is_stop(entry: Entry) -> bool:
    return entry.kind == "message" and entry.text.strip() in STOPS


def numbers_named(text: str) -> list[int]:
    """The messages that a part of an answer names; none where it is no part of an answer."""
    found = _NAMED.search(text)
    named = "" if found is None else found[1] or found[2] or found[3]
    return [int(each) for each in named.split("+") if each]


# ── nothing is lost ─────────────────────────────────────────────────────────────────────────────────────────


def _find_open(case: _Case) -> Iterator[str]:
    if case.books.log_left:
        yield f"{case.books.log_left} events of turns were never folded"
    for entry in case.books.entries:
        if entry.state != "ended" and entry.row.outcome is not None:
            yield f"message {entry.row.message_id} has an outcome and is still {entry.state}"
    hopeless = {unit.inbound_id for unit in case.units.values() if unit.doubts > MAX_DOUBTS}
    for unit in case.units.values():
        if unit.state not in _SETTLED or (unit.state in ("dead", "expired") and unit.inbound_id not in hopeless):
            yield f"unit {unit.id} is {unit.state} with {unit.doubts} doubts"


def _find_bad_ends(case: _Case, *, may_drop: bool) -> Iterator[str]:
    """Each message has an end that fits what it was, and those of one turn fit together."""
    for entry in case.books.entries:
        possible = _possible_ends(entry, may_drop=may_drop)
        if entry.row.outcome is not None and entry.row.outcome not in possible:
            yield f"message {entry.row.message_id} ({entry.text}) ended {entry.row.outcome}: {entry.reason}"
        if entry.row.outcome == "joined":
            yield from _find_bad_join(case, entry)
        if entry.row.joined_to is not None and entry.row.joined_to not in case.with_turn:
            yield f"message {entry.row.message_id} joined the turn of {entry.row.joined_to}, which has none"


def _possible_ends(entry: Entry, *, may_drop: bool) -> set[str]:
    if is_stop(entry):  # a second stop stops the first, too
        return {"command", "stopped"}
    if entry.kind == "delete":
        return {"skipped", "stopped"}
    ends = {"answered", "joined", "stopped"} | ({"skipped"} if entry.kind == "edit" else set[str]())
    return ends | ({"dropped"} if may_drop else set[str]())


def _find_bad_join(case: _Case, entry: Entry) -> Iterator[str]:
    """It names the message with whose answer it was answered; that one was answered, by the same turn."""
    name, host = entry.row.message_id, entry.row.joined_to or entry.row.id
    found = _NAMES_ANOTHER.fullmatch(entry.reason)
    other = None if found is None else case.entries.get(found[1])
    if other is None:
        yield f"message {name} is called joined and names no message: {entry.reason!r}"
    elif other.row.outcome != "answered":
        yield f"message {name} names {other.row.message_id}, which ended {other.row.outcome}"
    elif (other.row.joined_to or other.row.id) != host or other.row.id == entry.row.id:
        yield f"message {name} names {other.row.message_id}, which another turn answered"


def _find_untold(case: _Case) -> Iterator[str]:
    """Whoever was answered has read all of it, with nothing of another's, unless they have stopped it; and the
    conversation knows what they said."""
    known = {session: _numbers_in(case, session) for session in case.books.transcripts}
    for host in case.hosts():
        covered = [each for each in case.of_turn(host) if each.row.outcome in ("answered", "joined")]
        asked = [n for each in covered if (n := case.number_of(each)) is not None]
        if not asked:
            continue
        numbers = [n for n in dict.fromkeys(known.get(host.row.session, ())) if n in asked]
        if missing := set(asked) - set(numbers):
            yield f"{host.row.session} does not remember {sorted(missing)}"
            continue
        parts = case.parts[host.row.id]
        told = " ".join(case.texts.get(unit.id, "") for unit in parts if unit.state == "sent").split()
        meant = write_answer(numbers).split()
        is_cut = any(unit.state != "sent" for unit in parts)
        may_be_cut = case.was_stopped_by_person(host) or any(unit.doubts > MAX_DOUBTS for unit in parts)
        if told != meant and not (is_cut and may_be_cut and told == meant[: len(told)]):
            yield f"the turn of {host.row.message_id}, which answers {numbers}, told {' '.join(told)!r}"


def _numbers_in(case: _Case, session: str) -> list[int]:
    """The messages that a conversation knows, in its order."""
    said = (message.text for message in case.books.transcripts.get(session, ()) if message.role == "user")
    return [n for text in said if _LEFT_OUT not in text and (n := number_in(text)) is not None]


# ── nothing is answered twice ───────────────────────────────────────────────────────────────────────────────


def _find_doubled(case: _Case) -> Iterator[str]:
    for entry in case.books.entries:
        if entry.row.joined_to is not None and entry.row.id in case.with_turn:
            yield f"message {entry.row.message_id} joined the turn of {entry.row.joined_to} and had one of its own"
    for host in case.hosts():
        answered = [each.row.message_id for each in case.of_turn(host) if each.row.outcome == "answered"]
        if len(answered) > 1:
            yield f"the turn of {host.row.message_id} is called the answer to each of {', '.join(answered)}"
    told: defaultdict[int, set[str]] = defaultdict(set)
    for reply in case.replies:
        host = case.host_of(reply)
        for n in () if host is None else numbers_named(reply.text):
            told[n].add("" if host is None else host.row.message_id)
    for n, hosts in told.items():
        if len(hosts) > 1:
            yield f"number {n} was answered by the turns of {', '.join(sorted(hosts))}"
    for session in case.books.transcripts:
        yield from _find_doubled_words(case, session)


def _find_doubled_words(case: _Case, session: str) -> Iterator[str]:
    """In the conversation each message stands once, and each call has one result."""
    messages = case.books.transcripts[session]
    for n, times in Counter(_numbers_in(case, session)).items():
        if times > 1:
            yield f"{session} remembers number {n} {times} times"
    calls = Counter(call.id for message in messages for call in message.tool_calls)
    results = Counter(result.call_id for message in messages for result in message.tool_results)
    if calls != results:
        yield f"{session} has calls {calls - results} without results and results {results - calls} without calls"


# ── nobody is overtaken ─────────────────────────────────────────────────────────────────────────────────────


def _find_overtaking(case: _Case) -> Iterator[str]:
    tickets: defaultdict[str, list[int]] = defaultdict(list)
    for entry in case.books.entries:
        tickets[entry.row.session].append(entry.row.ticket)
    for session, given in tickets.items():
        if sorted(given) != list(range(1, len(given) + 1)):
            yield f"the tickets of {session} are {sorted(given)}"
    for session in case.books.transcripts:
        said = [case.by_number[n] for n in _numbers_in(case, session) if n in case.by_number]
        yield from (f"{session} remembers {late} after {early}" for early, late in _overtaken(case, said))
    shown: defaultdict[str, list[Entry]] = defaultdict(list)
    seen: set[str] = set()
    newest: dict[str, int] = {}
    for reply in case.replies:
        host = case.host_of(reply)
        if host is None or reply.token in seen:
            continue
        seen.add(reply.token)
        shown[host.row.session].append(host)
        if (seq := case.units[reply.token].seq) < newest.get(host.row.id, seq):
            yield f"part {seq} of the answer to {host.row.message_id} came after part {newest[host.row.id]}"
        newest[host.row.id] = max(seq, newest.get(host.row.id, seq))
    for session, hosts in shown.items():
        overtaken = dict.fromkeys(_overtaken(case, hosts))
        yield from (f"in {session} the answer to {late} was seen after that to {early}" for early, late in overtaken)


def _overtaken(case: _Case, order: Iterable[Entry]) -> Iterator[tuple[str, str]]:
    """Who came before one with an earlier ticket. One that interrupts may pass what its own sender wrote."""
    newest: dict[str | None, Entry] = {}
    for entry in order:
        for sender, passed in newest.items():
            if passed.row.ticket > entry.row.ticket and sender != entry.sender:
                yield passed.row.message_id, entry.row.message_id
        whose = entry.sender if case.may_pass(entry) else None
        before = newest.get(whose)
        newest[whose] = entry if before is None or before.row.ticket < entry.row.ticket else before


# ── nobody's words are mixed with another's ─────────────────────────────────────────────────────────────────


def _find_merged(case: _Case) -> Iterator[str]:
    for host in case.hosts():
        for entry in case.joined[host.row.id]:
            if (entry.row.session, entry.sender) != (host.row.session, host.sender):
                yield f"message {entry.row.message_id} joined the turn of {host.row.message_id}, which is another's"
            if entry.row.ticket < host.row.ticket:
                yield f"message {entry.row.message_id} joined the later turn of {host.row.message_id}"
    for reply in case.replies:
        named = [case.by_number[n] for n in numbers_named(reply.text) if n in case.by_number]
        if len({(each.row.session, each.sender) for each in named}) > 1:
            yield f"one answer names {', '.join(each.row.message_id for each in named)}, which several people wrote"


# ── what is stopped stays stopped ───────────────────────────────────────────────────────────────────────────


def _find_unstopped(case: _Case) -> Iterator[str]:
    for entry in case.books.entries:
        if entry.row.outcome == "stopped" and not _has_cause(case, entry):
            yield f"message {entry.row.message_id} was stopped by nobody: {entry.reason}"
    yield from _find_seen_after_stop(case)
    yield from _find_seen_after_interruption(case)


def _has_cause(case: _Case, entry: Entry) -> bool:
    for later in case.later_of_sender(entry):
        is_deletion = later.kind == "delete" and later.target == entry.row.message_id
        if is_stop(later) or is_deletion or case.interrupts(later):
            return True
    return False


def _find_seen_after_stop(case: _Case) -> Iterator[str]:
    """Once somebody has read that a stop was carried out, no more comes of what they wrote before it."""
    stops: list[Entry] = []
    for reply in case.replies:
        unit, host = case.units.get(reply.token), case.host_of(reply)
        entry = None if unit is None else case.entries.get(unit.inbound_id)
        if host is None and entry is not None and is_stop(entry):
            stops.append(entry)
        for stop in stops if host is not None else ():
            same = host is not None and (stop.row.session, stop.sender) == (host.row.session, host.sender)
            if same and host is not None and host.row.ticket < stop.row.ticket:
                yield f"{reply.text!r} was seen after stop {stop.row.message_id} was answered"


def _find_seen_after_interruption(case: _Case) -> Iterator[str]:
    """Once the answer to an interrupting message has begun, no more comes of the one that it interrupted."""
    begun: set[str] = set()
    for reply in case.replies:
        if (host := case.host_of(reply)) is None:
            continue
        begun.add(host.row.id)
        if host.row.outcome == "stopped" and (by := host.reason.rpartition(" ")[2]) in begun and by != host.row.id:
            yield f"{reply.text!r} was seen after the answer to {by}, which interrupted it, had begun"
