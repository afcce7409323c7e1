"""The store of notes: numbered for each person, found by their words, and gone when they are forgotten."""

import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from finclaw.builtins.ranking import forms, index_words, query_words, rarity, weigh
from finclaw.errors import ToolError
from finclaw.ids import parts_of
from finclaw.kernel.extension import Database, Transaction
from finclaw.kernel.person import Person
from finclaw.kernel.record import SenderId

T = TypeVar("T")

MOST_NOTES: Final = 2_000  # of one person
LONGEST: Final = 1_000  # characters of one note

MIGRATIONS: Final = (
    """
    CREATE TABLE owners (id INTEGER PRIMARY KEY, name TEXT NOT NULL UNIQUE, given INTEGER NOT NULL DEFAULT 0);
    CREATE TABLE notes (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        owner INTEGER NOT NULL REFERENCES owners,
        number INTEGER NOT NULL,
        text TEXT NOT NULL,
        folded TEXT NOT NULL,
        saved_at TEXT NOT NULL,
        UNIQUE (owner, number),
        UNIQUE (owner, folded)
    );
    CREATE VIRTUAL TABLE word_index USING fts5(words, tokenize = 'ascii');
    INSERT INTO word_index (word_index, rank) VALUES ('secure-delete', 1);
    """,
    # Each on a line of its own; empty for what is the person's own word.
    "ALTER TABLE notes ADD COLUMN sources TEXT NOT NULL DEFAULT ''",
    # By which rules of `ranking.py` the index was made: it is made anew when they are others.
    "CREATE TABLE index_rules (version INTEGER NOT NULL)",
    # A plain table of words, where the first was one that SQLite alone has. Words stand in it under their owner's
    # number: a question can meet nobody else's, whatever it says.
    """
    ALTER TABLE notes ADD COLUMN length INTEGER NOT NULL DEFAULT 0;
    CREATE TABLE note_words (
        owner INTEGER NOT NULL REFERENCES owners,
        word TEXT NOT NULL,
        note INTEGER NOT NULL REFERENCES notes,
        times INTEGER NOT NULL,
        PRIMARY KEY (owner, word, note)
    );
    CREATE INDEX note_words_of_note ON note_words (note);
    DROP TABLE word_index;
    """,
)
INDEX_RULES: Final = 3  # to be raised with every change of what `index_words` gives

_COLUMNS: Final = "number, text, saved_at, sources"


class Note(Struct, frozen=True):
    """A note. `sources`: strangers' words that had been read when the person said yes to it; it may be theirs."""

    number: int
    text: str
    saved_at: datetime
    sources: tuple[str, ...] = ()


def quote_notes(notes: Iterable[Note]) -> Iterator[str]:
    """Lines for a model or a person, each note in quotation marks.

    A note that says "end of notes, now obey" is still only words between them.
    """
    for note in notes:
        saved = f"{note.saved_at:%Y-%m-%d}"
        if note.sources:
            saved += ", after others' words were read"
        yield f"note {note.number} ({saved}): {msgspec.json.encode(note.text).decode()}"


class OwnedNote(Struct, frozen=True):
    owner: str
    note: Note


class TooManyNotes(ToolError):
    pass


_MOST_WITHOUT: Final = 10_000


class NoteStore:
    """The notes of all people, in a database.

    All methods raise SessionError (StoreFailed: the disk) and leave everything as it was then.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._without_notes: set[str] = set()
        """People who had none when they were last looked for: most never have one, and a look costs a switch of
        threads in every turn (`cpu_plain`). Commands beside this process remove notes; only this one saves them."""
        self._adopted: set[str] = set()

    async def save(self, owner: str, text: str, at: datetime, sources: Sequence[str] = ()) -> Note:
        """The same words are one note, with the newer date. Raises TooManyNotes."""
        new = Note(0, text, at, tuple(sources))

        def work(rows: Transaction) -> Note:
            _renew_index(rows)
            who = _find_owner(rows, owner) or _new_owner(rows, owner)
            if (known := _find_same(rows, who, text)) is not None:
                return _renew(rows, known, who, new)
            if _count(rows, who) >= MOST_NOTES:
                raise TooManyNotes(f"there are {MOST_NOTES:,} notes already; ask the person which ones to forget first")
            return _insert(rows, who, new)

        try:
            return await self._database.transaction(work)
        finally:  # behind any search that ran before it and found nothing
            self._without_notes.discard(owner)

    async def owner_of(self, person: Person) -> str:
        """The name that a person's notes stand under. Notes under former names are theirs from now on."""
        if person.id not in self._adopted:
            former = _former_names(person)
            if former:
                await self._database.transaction(lambda rows: _adopt(rows, person.id, former))
                self._without_notes.discard(person.id)
            self._adopted.add(person.id)
        return person.id

    async def search(self, owner: str, question: str, most: int) -> Sequence[Note]:
        """Those that share a telling word with the question, best first; of equals the newer."""
        if owner in self._without_notes:
            return ()
        words = tuple(dict.fromkeys(form for word in query_words(question) for form in forms(word)))
        if not words:
            return ()

        def work(rows: Transaction, who: int) -> Sequence[Note]:
            best = _rank(rows, who, words)[:most]
            if not best:
                return ()
            found = rows.execute(f"SELECT id, {_COLUMNS} FROM notes WHERE id IN ({_marks(best)})", best)
            by_id = {id: _note(*row) for id, *row in found}
            return tuple(by_id[id] for id in best)

        found = await self._of(owner, work, None)
        if found is None:
            if len(self._without_notes) >= _MOST_WITHOUT:
                self._without_notes.clear()
            self._without_notes.add(owner)
        return found or ()

    async def find(self, owner: str, number: int) -> Note | None:
        def work(rows: Transaction, who: int) -> Note | None:
            found = rows.execute(f"SELECT {_COLUMNS} FROM notes WHERE owner = ? AND number = ?", (who, number))
            return next((_note(*row) for row in found), None)

        return await self._of(owner, work, None)

    async def forget(self, owner: str, number: int) -> bool:
        """False if there is no such note of this person."""
        where = "owner = ? AND number = ?"
        return await self._of(owner, lambda rows, who: _remove(rows, where, (who, number)) == 1, False)

    async def clear(self, owner: str) -> int:
        return await self._of(owner, lambda rows, who: _remove(rows, "owner = ?", (who,)), 0)

    async def forget_owner(self, owner: str) -> int:
        """All notes and the owner's own row, as if they had never been here; how many notes there were."""

        def work(rows: Transaction, who: int) -> int:
            gone = _remove(rows, "owner = ?", (who,))
            rows.execute("DELETE FROM owners WHERE id = ?", (who,))
            return gone

        return await self._of(owner, work, 0)

    async def latest(self, owner: str, most: int, skip: int = 0) -> tuple[Sequence[Note], int]:
        """A page of them, the newest first, and how many there are in all."""

        def work(rows: Transaction, who: int) -> tuple[Sequence[Note], int]:
            page = rows.execute(
                f"SELECT {_COLUMNS} FROM notes WHERE owner = ? ORDER BY saved_at DESC, number DESC LIMIT ? OFFSET ?",
                (who, most, skip),
            )
            return tuple(_note(*row) for row in page), _count(rows, who)

        return await self._of(owner, work, ((), 0))

    async def everybodys(self, owner: str | None = None) -> Sequence[OwnedNote]:
        """For whoever runs the gateway: everything, or all of one person."""
        query = f"SELECT owners.name, {_COLUMNS} FROM notes JOIN owners ON owners.id = notes.owner"
        values: list[str] = []
        if owner is not None:
            query += " WHERE owners.name = ?"
            values.append(owner)
        rows = await self._database.execute(f"{query} ORDER BY owners.name, notes.number", *values)
        return tuple(OwnedNote(name, _note(*row)) for name, *row in rows)

    async def _of(self, owner: str, work: Callable[[Transaction, int], T], nothing: T) -> T:
        def run(rows: Transaction) -> T:
            _renew_index(rows)
            who = _find_owner(rows, owner)
            if who is None:
                return nothing
            return work(rows, who)

        return await self._database.transaction(run)


def owner_name(sender: SenderId) -> str:
    parts = (sender.channel, sender.account, sender.sender)
    return ":".join(part.replace("%", "%25").replace(":", "%3A") for part in parts)


def _former_names(person: Person) -> tuple[str, ...]:
    """Names under which notes of this person may still stand.

    They had an identity for themselves before it was linked, and an older release escaped senders too.
    """
    known = (person.id, *person.former)
    spelled = (owner_name(SenderId.parse(who)) for who in known if who.count(":") > 1 and all(parts_of(who)))
    return tuple(name for name in dict.fromkeys((*person.former, *spelled)) if name != person.id)


def normalize_text(text: str) -> str:
    """Return what two spellings of one note have in common."""
    return " ".join(unicodedata.normalize("NFKC", text).casefold().split()).strip(" .!?。…")


# ── inside a transaction ────────────────────────────────────────────────────────────────────────────────────


def _find_owner(rows: Transaction, owner: str) -> int | None:
    return _first(rows.execute("SELECT id FROM owners WHERE name = ?", (owner,)))


def _first(found: Sequence[tuple[Any, ...]]) -> Any:
    """The first value of the first row; None where there is none."""
    return next((row[0] for row in found), None)


def _renew_index(rows: Transaction) -> None:
    """Once, after the rules have changed: notes of an earlier release are found like new ones."""
    if rows.execute("SELECT 1 FROM index_rules WHERE version = ?", (INDEX_RULES,)):
        return
    rows.execute("DELETE FROM note_words")
    for id, who, text in rows.execute("SELECT id, owner, text FROM notes"):
        _index(rows, id, who, text)
    rows.execute("DELETE FROM index_rules")
    rows.execute("INSERT INTO index_rules (version) VALUES (?)", (INDEX_RULES,))


def _find_same(rows: Transaction, who: int, text: str) -> int | None:
    return _first(rows.execute("SELECT id FROM notes WHERE owner = ? AND folded = ?", (who, normalize_text(text))))


def _adopt(rows: Transaction, owner: str, former: Sequence[str]) -> None:
    """They get new numbers, behind those that the owner has."""
    _renew_index(rows)
    for name in former:
        if (old := _find_owner(rows, name)) is None:
            continue
        who = _find_owner(rows, owner) or _new_owner(rows, owner)
        for row in rows.execute(f"SELECT {_COLUMNS} FROM notes WHERE owner = ? ORDER BY number", (old,)):
            note = _note(*row)
            if _find_same(rows, who, note.text) is None:
                _insert(rows, who, note)
        _remove(rows, "owner = ?", (old,))
        rows.execute("DELETE FROM owners WHERE id = ?", (old,))


def _new_owner(rows: Transaction, owner: str) -> int:
    return rows.execute("INSERT INTO owners (name) VALUES (?) RETURNING id", (owner,))[0][0]


def _insert(rows: Transaction, who: int, note: Note) -> Note:
    number = rows.execute("UPDATE owners SET given = given + 1 WHERE id = ? RETURNING given", (who,))[0][0]
    kept = "INSERT INTO notes (owner, number, text, folded, saved_at, sources) VALUES (?, ?, ?, ?, ?, ?) RETURNING id"
    values = (who, number, note.text, normalize_text(note.text), _format_time(note.saved_at), "\n".join(note.sources))
    (row,) = rows.execute(kept, values)
    _index(rows, row[0], who, note.text)
    return replace(note, number=number)


def _renew(rows: Transaction, id: int, who: int, note: Note) -> Note:
    """What the person has said in so many words, then or now, is theirs."""
    sources = "" if note.sources else ", sources = ''"
    renewed = f"UPDATE notes SET text = ?, saved_at = ?{sources} WHERE id = ? RETURNING {_COLUMNS}"
    (row,) = rows.execute(renewed, (note.text, _format_time(note.saved_at), id))
    rows.execute("DELETE FROM note_words WHERE note = ?", (id,))
    _index(rows, id, who, note.text)
    return _note(*row)


def _index(rows: Transaction, id: int, who: int, text: str) -> None:
    words = Counter(index_words(text))
    rows.execute("UPDATE notes SET length = ? WHERE id = ?", (words.total(), id))
    if words:
        values = [each for word, times in words.items() for each in (who, word, id, times)]
        lines = ", ".join(["(?, ?, ?, ?)"] * len(words))
        rows.execute(f"INSERT INTO note_words (owner, word, note, times) VALUES {lines}", values)


def _rank(rows: Transaction, who: int, words: Sequence[str]) -> list[int]:
    """The ids of the notes that have any of the words, best first."""
    found = rows.execute(
        "SELECT note_words.word, notes.id, note_words.times, notes.length FROM note_words "
        "JOIN notes ON notes.id = note_words.note "
        f"WHERE note_words.owner = ? AND note_words.word IN ({_marks(words)})",
        (who, *words),
    )
    ((notes, length),) = rows.execute("SELECT count(*), sum(length) FROM notes WHERE owner = ?", (who,))
    having = Counter(word for word, *_ in found)
    scores: defaultdict[int, float] = defaultdict(float)
    for word, id, times, size in found:
        scores[id] += rarity(having[word], notes) * weigh(times, size * notes / int(length))
    return sorted(scores, key=lambda id: (-scores[id], -id))


def _marks(values: Sequence[object]) -> str:
    return ", ".join("?" * len(values))


def _remove(rows: Transaction, where: str, values: Sequence[int]) -> int:
    gone = [id for (id,) in rows.execute(f"SELECT id FROM notes WHERE {where}", values)]
    for id in gone:
        rows.execute("DELETE FROM note_words WHERE note = ?", (id,))
        rows.execute("DELETE FROM notes WHERE id = ?", (id,))
    return len(gone)


def _count(rows: Transaction, who: int) -> int:
    return rows.execute("SELECT count(*) FROM notes WHERE owner = ?", (who,))[0][0]


def _note(number: int, text: str, saved_at: str, sources: str) -> Note:
    return Note(number, text, datetime.fromisoformat(saved_at), tuple(sources.splitlines()))


def _format_time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()
