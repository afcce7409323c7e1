"""The books after the last gateway has stopped: the checker's verdict, and what only this run can know to be right."""

import asyncio
import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import apsw
from tests.chaos.child import words
from tests.support.checker import Verdict, judge
from tests.support.history import HistoryEvent, InboundRow, ReplySeen, Rows, TurnRow, UnitRow

from finclaw.clock import SystemClock
from finclaw.delivery.format import RESENT_MARK
from finclaw.delivery.outbox import MAX_DOUBTS
from finclaw.kernel.message import Message
from finclaw.storage.blobs.directory import BLOBS
from finclaw.storage.jsonl.directory import SESSIONS
from finclaw.storage.jsonl.store import open_jsonl_store
from finclaw.storage.sqlite import transcript
from finclaw.storage.sqlite.codec import UNITS, PublicIds, read_inbound, read_outcome
from finclaw.storage.sqlite.outbox import delivery


@dataclass(frozen=True)
class Entry:
    """One accepted message with everything that the checker's row leaves out."""

    row: InboundRow
    text: str
    state: str
    attempts: int
    delivery: str
    sender: str = ""
    kind: str = "message"
    target: str | None = None
    """The platform's id of the message that an edit or a deletion is about."""
    is_edited: bool = False
    reason: str = ""
    """Of its outcome."""


@dataclass(frozen=True)
class Books:
    """Everything the database says."""

    rows: Rows
    entries: tuple[Entry, ...]
    turn_sessions: Mapping[str, str]
    transcripts: Mapping[str, tuple[Message, ...]]
    log_left: int
    """Events of turns that were never folded."""


@dataclass(frozen=True)
class Audit:
    verdict: Verdict
    complaints: tuple[str, ...]
    messages: int
    answered: int
    failed: int
    units: int
    dead: int
    doubts: int
    repeats: int
    """How often somebody saw a unit once more."""
    early: int
    """Units that were delivered while their turn ran."""
    blobs: int
    """Files that messages refer to."""

    @property
    def clean(self) -> bool:
        return self.verdict.ok and not self.complaints

    def __str__(self) -> str:
        return "\n".join((str(self.verdict), *self.complaints))


def audit(events: Sequence[HistoryEvent], database: Path, *, max_attempts: int, sessions: str = "") -> Audit:
    """`sessions` is how the keys of the sessions begin that are audited: others may have been there before."""
    books = select_sessions(read_books(database), sessions)
    seen = [event for event in events if isinstance(event, ReplySeen)]
    outcomes = Counter(row.outcome for row in books.rows.inbound)
    return Audit(
        verdict=judge(events, books.rows),
        complaints=(
            *_ends(books, max_attempts),
            *_order(books),
            *find_talk_faults(books),
            *_texts(books, seen),
            *_find_blob_faults(database),
        ),
        messages=len(books.entries),
        answered=outcomes["answered"],
        failed=outcomes["failed"],
        units=len(books.rows.units),
        dead=sum(unit.state == "dead" for unit in books.rows.units),
        doubts=sum(unit.doubts for unit in books.rows.units),
        repeats=len(seen) - len({reply.token for reply in seen}),
        early=count_early(database),
        blobs=len(_blob_rows(database)),
    )


# ── what must be so ─────────────────────────────────────────────────────────────────────────────────────────


def _ends(books: Books, max_attempts: int) -> Iterator[str]:
    """Everything has ended, and nothing was given up but what the rules give up."""
    if books.log_left:
        yield f"{books.log_left} events of turns were never folded"
    for entry in books.entries:
        name = entry.row.message_id
        if entry.state != "ended":
            yield f"message {name} is still {entry.state}"
        if entry.row.outcome != "answered" and not (entry.row.outcome == "failed" and entry.attempts > max_attempts):
            yield f"message {name} ended {entry.row.outcome} after {entry.attempts} attempts"
    hopeless = {unit.inbound_id for unit in books.rows.units if unit.doubts > MAX_DOUBTS}
    for unit in books.rows.units:
        is_given_up = unit.state == "superseded" if unit.is_preview else unit.inbound_id in hopeless
        if unit.state != "sent" and not (unit.state in ("dead", "superseded") and is_given_up):
            yield f"unit {unit.id} is {unit.state} with {unit.doubts} doubts"


def _order(books: Books) -> Iterator[str]:
    """Tickets have no gaps, and a turn is where its message is."""
    tickets: defaultdict[str, list[int]] = defaultdict(list)
    for row in books.rows.inbound:
        tickets[row.session].append(row.ticket)
    for session, given in tickets.items():
        if sorted(given) != list(range(1, len(given) + 1)):
            yield f"the tickets of {session} are {sorted(given)}"
    turns = Counter(turn.inbound_id for turn in books.rows.turns)
    for row in books.rows.inbound:
        if turns[row.id] != 1:
            yield f"message {row.message_id} has {turns[row.id]} turns"
        elif books.turn_sessions[row.id] != row.session:
            yield f"the turn of message {row.message_id} is in session {books.turn_sessions[row.id]}"


def find_talk_faults(books: Books) -> Iterator[str]:
    """Each conversation holds every question once, in order of tickets, and no call without its result."""
    asked: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for entry in books.entries:
        asked[entry.row.session].append((entry.row.ticket, entry.text))
    for session, questions in asked.items():
        messages = books.transcripts[session]
        kept = [message.text for message in messages if message.role == "user"]
        if kept != [text for _, text in sorted(questions)]:
            yield f"{session} remembers the questions {kept}"
        calls = Counter(call.id for message in messages for call in message.tool_calls)
        results = Counter(result.call_id for message in messages for result in message.tool_results)
        if calls != results:
            yield f"{session} has calls {calls - results} without results and results {results - calls} without calls"


def _texts(books: Books, seen: Sequence[ReplySeen]) -> Iterator[str]:
    """Whoever asked for a number was told that number, whole, with nothing twice and nothing of another's."""
    parts: dict[str, str] = {}
    for reply in seen:
        parts.setdefault(reply.token, reply.text.removeprefix(RESENT_MARK))
    units: defaultdict[str, list[UnitRow]] = defaultdict(list)
    for unit in books.rows.units:
        if not unit.is_preview:
            units[unit.inbound_id].append(unit)
    for entry in books.entries:
        number = re.search(r"\bn=(\d+)", entry.text)
        if number is None or entry.row.outcome != "answered":
            continue
        mine = sorted(units[entry.row.id], key=lambda unit: unit.seq)
        told = " ".join(parts.get(unit.id, "") for unit in mine if unit.state == "sent")
        if told.split() != words(int(number.group(1))).split() and all(unit.state == "sent" for unit in mine):
            yield f"message {entry.row.message_id} ({entry.text}) was told {told!r}"


def _find_blob_faults(database: Path) -> Iterator[str]:
    """No file without a row, no row without its file, and no message that refers to neither."""
    place = database.parent / BLOBS
    files = {path.name: path.read_bytes() for path in place.iterdir()} if place.is_dir() else {}
    rows = _blob_rows(database)
    for name in files.keys() ^ rows:
        yield f"blob {name} has {'no row' if name in files else 'no file'}"
    for name, data in files.items():
        if hashlib.sha256(data).hexdigest() != name:
            yield f"blob {name} has another content"
    for name in _blobs_referred_to(database) - rows:
        yield f"a message refers to blob {name}, which is not there"


# ── reading ─────────────────────────────────────────────────────────────────────────────────────────────────


def open_for_reading(database: Path) -> apsw.Connection:
    """Waits for a gateway that is just reading its journal after a crash: nobody else gets at the file meanwhile."""
    db = apsw.Connection(str(database), flags=apsw.SQLITE_OPEN_READONLY)
    db.set_busy_timeout(10_000)
    return db


def read_books(database: Path) -> Books:
    files = _read_files(database)
    db = open_for_reading(database)
    try:
        ids = PublicIds(str(db.execute("SELECT value FROM meta WHERE key = 'name'").get))
        entries = tuple(_entries(db, ids))
        turns = [
            (ids.turn(int(row)), ids.inbound(int(row)), str(key))
            for row, key in db.execute("SELECT turn.id, key FROM turn LEFT JOIN session ON session.id = turn.session")
        ]
        return Books(
            rows=Rows(
                inbound=tuple(entry.row for entry in entries),
                turns=tuple(TurnRow(id=turn, inbound_id=inbound) for turn, inbound, _ in turns),
                units=tuple(_units(db, ids)),
            ),
            entries=entries,
            turn_sessions={inbound: session for _, inbound, session in turns},
            transcripts=_transcripts(db) | files.transcripts,
            log_left=int(db.execute("SELECT count(*) FROM event").get) + files.log_left,
        )
    finally:
        db.close()


def select_sessions(books: Books, prefix: str) -> Books:
    """The same without the messages of other sessions, and without what came of those."""
    entries = tuple(entry for entry in books.entries if entry.row.session.startswith(prefix))
    ids = {entry.row.id for entry in entries}
    return Books(
        rows=Rows(
            inbound=tuple(entry.row for entry in entries),
            turns=tuple(turn for turn in books.rows.turns if turn.inbound_id in ids),
            units=tuple(unit for unit in books.rows.units if unit.inbound_id in ids),
        ),
        entries=entries,
        turn_sessions={inbound: session for inbound, session in books.turn_sessions.items() if inbound in ids},
        transcripts={key: messages for key, messages in books.transcripts.items() if key.startswith(prefix)},
        log_left=books.log_left,
    )


def calls_booked(database: Path) -> tuple[int, int]:
    """Model calls in the books, and those of them that were interrupted."""
    db = open_for_reading(database)
    try:
        calls, interrupted = db.execute("SELECT sum(calls), sum(interrupted) FROM spend").fetchall()[0]
        return int(calls or 0), int(interrupted or 0)
    finally:
        db.close()


def _blob_rows(database: Path) -> set[str]:
    return _names(database, "SELECT sha256 FROM blob")


def _blobs_referred_to(database: Path) -> set[str]:
    named = "SELECT value ->> 'blob' AS name FROM inbound, json_each(body, '$.attachments')"
    return _names(database, f"SELECT name FROM ({named}) WHERE name IS NOT NULL")


def _names(database: Path, query: str) -> set[str]:
    db = open_for_reading(database)
    try:
        return {str(name) for (name,) in db.execute(query)}
    finally:
        db.close()


def count_early(database: Path) -> int:
    db = open_for_reading(database)
    try:
        early = "body ->> 'span' IS NOT NULL OR body ->> 'is_preview'"
        return int(db.execute(f"SELECT count(*) FROM unit_body WHERE {early}").get)
    finally:
        db.close()


def unsettled(database: Path) -> int:
    """Messages without an end and units without one. Works beside a running gateway, which is not disturbed."""
    db = open_for_reading(database)
    try:
        return int(
            db.execute(
                "SELECT (SELECT count(*) FROM inbound WHERE kind IS NULL) + "
                "(SELECT count(*) FROM unit WHERE state IN ('planned', 'sending', 'unknown'))"
            ).get
        )
    finally:
        db.close()


def given_up(database: Path) -> set[str]:
    """The messages whose answer nobody will hear to its end. Works beside a running gateway, too."""
    db = open_for_reading(database)
    try:
        dead = "SELECT body FROM inbound WHERE id IN (SELECT id / ? FROM unit WHERE state = 'dead')"
        return {read_inbound(str(body)).message_id for (body,) in db.execute(dead, (UNITS,))}
    finally:
        db.close()


def _entries(db: apsw.Connection, ids: PublicIds) -> Iterator[Entry]:
    rows = db.execute(
        "SELECT inbound.id, key, ticket, inbound.body, outcome.body, state, attempts, joined.turn FROM inbound "
        "LEFT JOIN session ON session.id = session LEFT JOIN outcome ON outcome.id = inbound.id "
        "LEFT JOIN joined ON joined.id = inbound.id"
    ).fetchall()
    for number, key, ticket, body, outcome, state, attempts, host in rows:
        inbound = read_inbound(str(body))
        end = None if outcome is None else read_outcome(str(outcome))
        row = InboundRow(
            id=ids.inbound(int(number)),
            message_id=inbound.message_id,
            session=str(key),
            ticket=int(ticket),
            outcome=None if end is None else end.kind,
            reissue_of=inbound.reissue_of,
            joined_to=None if host is None else ids.inbound(int(host)),
        )
        yield Entry(
            row,
            inbound.text,
            str(state),
            int(attempts),
            delivery(db, int(number)),
            sender=inbound.sender.id,
            kind=inbound.kind,
            target=inbound.target,
            is_edited=inbound.edited,
            reason="" if end is None else end.reason,
        )


def _units(db: apsw.Connection, ids: PublicIds) -> Iterator[UnitRow]:
    columns = "id, state, doubts, body ->> 'turn_id', body ->> 'is_preview'"
    rows = db.execute(f"SELECT {columns} FROM unit JOIN unit_body USING (id)")
    for number, state, doubts, turn_id, is_preview in rows:
        inbound, seq = divmod(int(number), UNITS)
        yield UnitRow(
            id=ids.unit(inbound, seq),
            inbound_id=ids.inbound(inbound),
            turn_id=None if turn_id is None else str(turn_id),
            seq=seq,
            state=str(state),
            doubts=int(doubts),
            is_preview=bool(is_preview),
        )


def _transcripts(db: apsw.Connection) -> dict[str, tuple[Message, ...]]:
    """Of those that have any."""
    sessions = db.execute("SELECT key, id FROM session").fetchall()
    read = {str(key): transcript.messages(db, int(number)) for key, number in sessions}
    return {key: messages for key, messages in read.items() if messages}


@dataclass(frozen=True)
class _Files:
    """What the file store says, where there is one."""

    transcripts: dict[str, tuple[Message, ...]]
    log_left: int


def _read_files(database: Path) -> _Files:
    """Through the store itself, because what a crash has left undone is done when somebody looks."""
    place = database.parent / SESSIONS
    if not place.is_dir():
        return _Files({}, 0)
    with ThreadPoolExecutor(1) as thread:  # the audit is called inside a running loop
        transcripts = thread.submit(asyncio.run, _conversations(database)).result()
    left = sum(len(log.read_bytes().splitlines()) for log in place.rglob("events.jsonl"))
    return _Files(transcripts, left)


async def _conversations(database: Path) -> dict[str, tuple[Message, ...]]:
    store = open_jsonl_store(database.parent, database, SystemClock(), lambda _: None)
    try:
        page = await store.sessions(1_000)
        return {session.key: tuple(await store.messages(session.key)) for session in page.items}
    finally:
        await store.close()
