"""The store of notes: numbered for each person, found by their words, and gone when they are forgotten."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from finclaw.builtins.memory.words import forms, index_words, normalize_text, query_words
from finclaw.errors import ToolError
from finclaw.kernel.extension import Database, Transaction

T = TypeVar("T")

MOST_NOTES: Final = 2_000
"""Of one person."""
LONGEST: Final = 1_000
"""Characters of one note."""

MIGRATIONS: Final = (
    # Words stand in the index behind their owner's number: a question can meet nobody else's, whatever it says.
    # The tokenizer is the plainest there is, because the words are made by `words.py`.
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
    # By which rules of `words.py` the index was made: it is made anew when they are others.
    "CREATE TABLE index_rules (version INTEGER NOT NULL)",
)
INDEX_RULES: Final = 2
"""To be raised with every change of what `indexed` gives."""

_COLUMNS: Final = "notes.number, notes.text, notes.saved_at, notes.sources"


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
        whose = ", after others' words were read" if note.sources else ""
        yield f"note {note.number} ({note.saved_at:%Y-%m-%d}{whose}): {msgspec.json.encode(note.text).decode()}"


class OwnedNote(Struct, frozen=True):
    owner: str
    note: Note


class TooManyNotes(ToolError):
    pass


class NoteStore:
    """The notes of all people, in a database.

    All methods raise SessionError (StoreFailed: the disk) and leave everything as it was then.
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    async def save(self, owner: str, text: str, at: datetime, sources: Sequence[str] = ()) -> Note:
        """The same words are one note, with the newer date. Raises TooManyNotes."""
        new = Note(0, text, at, tuple(sources))

        def work(rows: Transaction) -> Note:
            _renew_index(rows)
            who = _find_owner(rows, owner) or _new_owner(rows, owner)
            known = rows.execute("SELECT id FROM notes WHERE owner = ? AND folded = ?", (who, normalize_text(text)))
            return _renew(rows, known[0][0], who, new) if known else _insert(rows, who, new)

        return await self._database.transaction(work)

    async def search(self, owner: str, question: str, most: int) -> Sequence[Note]:
        """Those that share a telling word with the question, best first; of equals the newer."""
        words = query_words(question)
        if not words:
            return ()

        def work(rows: Transaction, who: int) -> Sequence[Note]:
            match = " OR ".join(
                f'"{_index_word(who, form)}"' for word in words for form in forms(word)
            )  # letters and digits only: see `words.py`
            found = rows.execute(
                f"SELECT {_COLUMNS} FROM word_index JOIN notes ON notes.id = word_index.rowid "
                "WHERE word_index MATCH ? AND notes.owner = ? ORDER BY bm25(word_index), notes.id DESC LIMIT ?",
                (match, who, most),
            )
            return tuple(_note(*row) for row in found)

        return await self._of(owner, work, ())

    async def find(self, owner: str, number: int) -> Note | None:
        def work(rows: Transaction, who: int) -> Note | None:
            found = rows.execute(f"SELECT {_COLUMNS} FROM notes WHERE owner = ? AND number = ?", (who, number))
            return _note(*found[0]) if found else None

        return await self._of(owner, work, None)

    async def forget(self, owner: str, number: int) -> bool:
        """False if there is no such note of this person."""

        def work(rows: Transaction, who: int) -> bool:
            return _remove(rows, "owner = ? AND number = ?", (who, number)) == 1

        return await self._of(owner, work, False)

    async def clear(self, owner: str) -> int:
        """How many there were."""
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
        rows = await self._database.execute(
            f"SELECT owners.name, {_COLUMNS} FROM notes JOIN owners ON owners.id = notes.owner "
            "WHERE ?1 IS NULL OR owners.name = ?1 ORDER BY owners.name, notes.number",
            owner,
        )
        return tuple(OwnedNote(name, _note(*row)) for name, *row in rows)

    async def _of(self, owner: str, work: Callable[[Transaction, int], T], nothing: T) -> T:
        def run(rows: Transaction) -> T:
            _renew_index(rows)
            who = _find_owner(rows, owner)
            return nothing if who is None else work(rows, who)

        return await self._database.transaction(run)


# ── inside a transaction ────────────────────────────────────────────────────────────────────────────────────


def _find_owner(rows: Transaction, owner: str) -> int | None:
    found = rows.execute("SELECT id FROM owners WHERE name = ?", (owner,))
    return found[0][0] if found else None


def _renew_index(rows: Transaction) -> None:
    """Once, after the rules have changed: notes of an earlier release are found like new ones."""
    if rows.execute("SELECT 1 FROM index_rules WHERE version = ?", (INDEX_RULES,)):
        return
    rows.execute("DELETE FROM word_index")
    for id, who, text in rows.execute("SELECT id, owner, text FROM notes"):
        _index(rows, id, who, text)
    rows.execute("DELETE FROM index_rules")
    rows.execute("INSERT INTO index_rules (version) VALUES (?)", (INDEX_RULES,))


def _new_owner(rows: Transaction, owner: str) -> int:
    return rows.execute("INSERT INTO owners (name) VALUES (?) RETURNING id", (owner,))[0][0]


def _insert(rows: Transaction, who: int, note: Note) -> Note:
    if _count(rows, who) >= MOST_NOTES:
        raise TooManyNotes(f"there are {MOST_NOTES:,} notes already; ask the person which ones to forget first")
    number = rows.execute("UPDATE owners SET given = given + 1 WHERE id = ? RETURNING given", (who,))[0][0]
    kept = "INSERT INTO notes (owner, number, text, folded, saved_at, sources) VALUES (?, ?, ?, ?, ?, ?) RETURNING id"
    values = (who, number, note.text, normalize_text(note.text), _format_time(note.saved_at), "\n".join(note.sources))
    (row,) = rows.execute(kept, values)
    _index(rows, row[0], who, note.text)
    return replace(note, number=number)


def _renew(rows: Transaction, id: int, who: int, note: Note) -> Note:
    """What the person has said in so many words, then or now, is theirs."""
    renewed = (
        "UPDATE notes SET text = ?1, saved_at = ?2, sources = CASE ?3 WHEN '' THEN '' ELSE sources END "
        f"WHERE id = ?4 RETURNING {_COLUMNS.replace('notes.', '')}"
    )
    (row,) = rows.execute(renewed, (note.text, _format_time(note.saved_at), "\n".join(note.sources), id))
    rows.execute("DELETE FROM word_index WHERE rowid = ?", (id,))
    _index(rows, id, who, note.text)
    return _note(*row)


def _index(rows: Transaction, id: int, who: int, text: str) -> None:
    words = " ".join(_index_word(who, word) for word in index_words(text))
    rows.execute("INSERT INTO word_index (rowid, words) VALUES (?, ?)", (id, words))


def _remove(rows: Transaction, where: str, values: Sequence[int]) -> int:
    rows.execute("PRAGMA secure_delete = ON")  # what is forgotten shall not lie on in a free page of the file
    gone = rows.execute(f"DELETE FROM notes WHERE {where} RETURNING id", values)
    for (id,) in gone:
        rows.execute("DELETE FROM word_index WHERE rowid = ?", (id,))
    return len(gone)


def _count(rows: Transaction, who: int) -> int:
    return rows.execute("SELECT count(*) FROM notes WHERE owner = ?", (who,))[0][0]


def _index_word(who: int, word: str) -> str:
    return f"{who}x{word}"


def _note(number: int, text: str, saved_at: str, sources: str) -> Note:
    return Note(number, text, datetime.fromisoformat(saved_at), tuple(sources.splitlines()))


def _format_time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat()
