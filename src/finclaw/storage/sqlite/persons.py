"""Persons and their identities, and the store's port for them: hops to the writer, as in `store.py`."""

import itertools
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Final

import apsw
from msgspec import convert
from msgspec.structs import replace

from finclaw.ids import identity
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.person import ContactHistory, Person
from finclaw.storage.sqlite import contacts, costs
from finclaw.storage.sqlite.codec import to_micros
from finclaw.storage.sqlite.writer import WriterClient

Entry = tuple[str, Sequence[str]]
"""A name and identities."""
FORGOTTEN: Final = "forgotten"
"""The user of what was spent by those who are erased: the sum lives on, and their name does not."""
_COLUMNS: Final = "id, name, language, timezone, currency, market, colors, compliance"
_KNOWN: Final = (
    "id IN (SELECT person FROM identity WHERE who != person) "
    "OR '' != language || timezone || currency || market || colors || compliance"
)


class PersonRows(WriterClient):
    """The part of a store that keeps persons."""

    async def find_person(self, who: str) -> Person | None:
        return await self._read(lambda db: find_person(db, who))

    async def people(self, limit: int = 1_000, after: str = "") -> Sequence[Person]:
        return await self._read(lambda db: _select(db, "id > ? ORDER BY id LIMIT ?", after, limit))

    async def contact_history(self, person: Person) -> ContactHistory:
        return await self._read(lambda db: contacts.read_history(db, person))

    async def last_texts(self, person: Person) -> Sequence[str]:
        return await self._read(lambda db: contacts.read_last_texts(db, person))

    async def known_people(self) -> Sequence[Person]:
        return await self._read(lambda db: _select(db, _KNOWN))

    async def save_person(self, person: Person) -> None:
        now = self._clock.now()
        await self._commit(lambda db: _save(db, person, now))

    async def seed_people(self, entries: Sequence[Entry]) -> None:
        now = self._clock.now()
        if entries and not await self._read(lambda db: _is_seeded(db, entries)):
            await self._commit(lambda db: _seed(db, entries, now))


# ── inside a transaction ────────────────────────────────────────────────────────────────────────────────────


def admit(db: apsw.Connection, inbound: Inbound, now: datetime) -> None:
    """A person of their own for a sender whom nobody knows yet. The gateway's own messages have no sender."""
    if not inbound.unasked:
        sender = inbound.sender
        _add_identity(db, identity(inbound.channel, inbound.account, sender.id), sender.name, now)


def _add_identity(db: apsw.Connection, who: str, name: str, now: datetime) -> None:
    db.execute("INSERT INTO identity (who, person) VALUES (?1, ?1) ON CONFLICT DO NOTHING", (who,))
    if db.changes():
        db.execute(
            "INSERT INTO person (id, name, since) VALUES (?, ?, ?) ON CONFLICT DO NOTHING", (who, name, to_micros(now))
        )


def find_person(db: apsw.Connection, who: str) -> Person | None:
    """An identity comes first: it may have been the id of somebody who is known by another one now."""
    found = _select(db, "id = coalesce((SELECT person FROM identity WHERE who = ?1), ?1)", who)
    found = found or _select(db, "name = ?1 AND name != '' LIMIT 2", who)
    return found[0] if len(found) == 1 else None


def _select(db: apsw.Connection, where: str, *values: str | int) -> list[Person]:
    rows = db.execute(f"SELECT {_COLUMNS} FROM person WHERE {where}", values).fetchall()
    return [_with_identities(db, convert(dict(zip(_COLUMNS.split(", "), row, strict=True)), Person)) for row in rows]


def _with_identities(db: apsw.Connection, person: Person) -> Person:
    rows = db.execute(
        "SELECT who, who IN (SELECT id FROM person) FROM identity WHERE person = ? ORDER BY who != person, who",
        (person.id,),
    ).fetchall()
    former = [str(who) for who, is_a_person in rows if not is_a_person]
    return replace(person, identities=tuple(str(who) for who, _ in rows), former=tuple(former))


def _save(db: apsw.Connection, person: Person, now: datetime) -> None:
    _add_identity(db, person.id, person.name, now)
    columns = _COLUMNS.split(", ")[1:]
    db.execute(
        f"UPDATE person SET {', '.join(f'{each} = ?' for each in columns)} WHERE id = ?",
        (*(getattr(person, each) for each in columns), person.id),
    )


# ── the entries of the settings ─────────────────────────────────────────────────────────────────────────────


def _is_seeded(db: apsw.Connection, entries: Sequence[Entry]) -> bool:
    """Every start asks, and nearly none has anything to write."""
    found = [(name, {_owner(db, who) for who in known_as}) for name, known_as in entries if known_as]
    owners = [next(iter(of)) for _, of in found if len(of) == 1]
    if len(owners) < len(found) or None in owners or len(set(owners)) < len(owners):
        return False
    return all(
        db.execute("SELECT name FROM person WHERE id = ?", (owner,)).get == name
        for (name, _), owner in zip(found, owners, strict=True)
    )


def _seed(db: apsw.Connection, entries: Sequence[Entry], now: datetime) -> None:
    named = [(name, known_as) for name, known_as in entries if known_as]
    # Whoever is named by the identity that their id is comes first: a link that was wrong can be taken apart again.
    by_id = [next((who for who in known_as if _owner(db, who) == who), None) for _, known_as in named]
    taken = {each for each in by_id if each is not None}
    for (name, known_as), person in zip(named, by_id, strict=True):
        target = person or _choose_id(db, known_as, taken)
        taken.add(target)
        _link(db, target, name, known_as, now)


def _choose_id(db: apsw.Connection, known_as: Sequence[str], taken: Collection[str]) -> str:
    """Whoever has one of these identities, unless another entry means them; else an id that is free."""
    owners = (_owner(db, who) for who in known_as)
    numbered = (f"{known_as[0]}#{number}" for number in itertools.count(2))
    candidates = itertools.chain(known_as, itertools.islice(numbered, 1_000))
    free = (who for who in candidates if not _is_person(db, who))
    return next((each for each in owners if each is not None and each not in taken), None) or next(free)


def _link(db: apsw.Connection, target: str, name: str, known_as: Sequence[str], now: datetime) -> None:
    """Give a person these identities. Whoever has none left becomes part of them."""
    before = dict.fromkeys(_owner(db, who) for who in known_as)
    db.execute(
        "INSERT INTO person (id, name, since) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO UPDATE SET name = ?2",
        (target, name, to_micros(now)),
    )
    for who in known_as:
        db.execute(
            "INSERT INTO identity (who, person) VALUES (?1, ?2) ON CONFLICT (who) DO UPDATE SET person = ?2",
            (who, target),
        )
    for other in before:
        if other and not db.execute("SELECT 1 FROM identity WHERE person = ?", (other,)).fetchone():
            costs.move(db, other, target)
            db.execute("DELETE FROM person WHERE id = ?", (other,))


def forget(db: apsw.Connection, who: str) -> None:
    """Remove an identity, and with their last one the person: what they have spent is nobody's from then on."""
    person = _owner(db, who) or who
    db.execute("DELETE FROM identity WHERE who = ?", (who,))
    if not db.execute("SELECT 1 FROM identity WHERE person = ?", (person,)).fetchone():
        db.execute("DELETE FROM person WHERE id = ?", (person,))
        costs.move(db, person, FORGOTTEN)


def _is_person(db: apsw.Connection, id: str) -> bool:
    return db.execute("SELECT 1 FROM person WHERE id = ?", (id,)).fetchone() is not None


def _owner(db: apsw.Connection, who: str) -> str | None:
    found = db.execute("SELECT person FROM identity WHERE who = ?", (who,)).get
    return None if found is None else str(found)
