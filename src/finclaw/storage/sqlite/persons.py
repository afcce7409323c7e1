"""Persons, their identities and their contact history."""

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
from finclaw.kernel.record import SenderId
from finclaw.storage.sqlite import costs
from finclaw.storage.sqlite.codec import maybe_from_micros, to_micros, write
from finclaw.text import LOOKED_AT

Entry = tuple[str, Sequence[str]]
"""A name and identities."""
FORGOTTEN: Final = "forgotten"
"""The user of what was spent by those who are erased: the sum lives on, and their name does not."""
_COLUMNS: Final = "id, name, language, timezone, currency, market, colors, compliance"
_KNOWN: Final = (
    "id IN (SELECT person FROM identity WHERE who != person) "
    "OR '' != language || timezone || currency || market || colors || compliance"
)


def admit(db: apsw.Connection, inbound: Inbound, now: datetime) -> None:
    """A person of their own for a sender whom nobody knows yet. The gateway's own messages have no sender."""
    if not inbound.unasked:
        sender = inbound.sender
        _add_identity(db, identity(inbound.channel, inbound.account, sender.id), sender.name, now)


def _add_identity(db: apsw.Connection, who: str, name: str, now: datetime) -> None:
    db.execute("INSERT INTO identity (who, person) VALUES (?1, ?1) ON CONFLICT DO NOTHING", (who,))
    if db.changes():
        sql = "INSERT INTO person (id, name, since) VALUES (?, ?, ?) ON CONFLICT DO NOTHING"
        db.execute(sql, (who, name, to_micros(now)))


def find_person(db: apsw.Connection, who: str) -> Person | None:
    """An identity comes first: it may have been the id of somebody who is known by another one now."""
    found = _select(db, "id = coalesce((SELECT person FROM identity WHERE who = ?1), ?1)", who)
    found = found or _select(db, "name = ?1 AND name != '' LIMIT 2", who)
    return found[0] if len(found) == 1 else None


def list_people(db: apsw.Connection, limit: int, after: str) -> list[Person]:
    return _select(db, "id > ? ORDER BY id LIMIT ?", after, limit)


def known_people(db: apsw.Connection) -> list[Person]:
    return _select(db, _KNOWN)


def _select(db: apsw.Connection, where: str, *values: str | int) -> list[Person]:
    rows = db.execute(f"SELECT {_COLUMNS} FROM person WHERE {where}", values).fetchall()
    return [_with_identities(db, convert(dict(zip(_COLUMNS.split(", "), row, strict=True)), Person)) for row in rows]


def _with_identities(db: apsw.Connection, person: Person) -> Person:
    sql = "SELECT who, who IN (SELECT id FROM person) FROM identity WHERE person = ? ORDER BY who != person, who"
    rows = db.execute(sql, (person.id,)).fetchall()
    former = [str(who) for who, is_a_person in rows if not is_a_person]
    return replace(person, identities=tuple(str(who) for who, _ in rows), former=tuple(former))


def save(db: apsw.Connection, person: Person, now: datetime) -> None:
    _add_identity(db, person.id, person.name, now)
    columns = _COLUMNS.split(", ")[1:]
    sql = f"UPDATE person SET {', '.join(f'{each} = ?' for each in columns)} WHERE id = ?"
    db.execute(sql, (*(getattr(person, each) for each in columns), person.id))


def is_seeded(db: apsw.Connection, entries: Sequence[Entry]) -> bool:
    """Every start asks, and nearly none has anything to write."""
    found = [(name, {_owner(db, who) for who in known_as}) for name, known_as in entries if known_as]
    owners = [next(iter(of)) for _, of in found if len(of) == 1]
    if len(owners) < len(found) or None in owners or len(set(owners)) < len(owners):
        return False
    return all(
        db.execute("SELECT name FROM person WHERE id = ?", (owner,)).get == name
        for (name, _), owner in zip(found, owners, strict=True)
    )


def seed(db: apsw.Connection, entries: Sequence[Entry], now: datetime) -> None:
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
    free = (who for who in candidates if not db.execute("SELECT 1 FROM person WHERE id = ?", (who,)).fetchone())
    return next((each for each in owners if each is not None and each not in taken), None) or next(free)


def _link(db: apsw.Connection, target: str, name: str, known_as: Sequence[str], now: datetime) -> None:
    """Give a person these identities. Whoever has none left becomes part of them."""
    before = dict.fromkeys(_owner(db, who) for who in known_as)
    sql = "INSERT INTO person (id, name, since) VALUES (?1, ?2, ?3) ON CONFLICT (id) DO UPDATE SET name = ?2"
    db.execute(sql, (target, name, to_micros(now)))
    for who in known_as:
        sql = "INSERT INTO identity (who, person) VALUES (?1, ?2) ON CONFLICT (who) DO UPDATE SET person = ?2"
        db.execute(sql, (who, target))
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


def _owner(db: apsw.Connection, who: str) -> str | None:
    return db.execute("SELECT person FROM identity WHERE who = ?", (who,)).get


MOST_TOPICS: Final = 5
LOOKED_BACK: Final = 10_000  # rows that `read_last_texts` looks at while somebody waits
LIKES: Final = frozenset("👍❤🔥👏🎉😁🥰🤩💯🏆🙏👌")
DISLIKES: Final = frozenset("👎💩🤮😡🤬😢")
_BY_SENDER: Final = (
    "FROM inbound WHERE body ->> '$.channel' = ? AND body ->> '$.account' = ? AND body ->> '$.sender.id' = ? "
    "AND body ->> '$.said_by' IS NULL AND body ->> '$.limits' IS NULL AND body ->> '$.again_for' IS NULL "
)
_WRITTEN: Final = "AND coalesce(body ->> '$.kind', 'message') IN ('message', 'action', 'edit')"


def read_history(db: apsw.Connection, person: Person) -> ContactHistory:
    """Return the whole history of a person, by all their identities.

    It is read from the messages that are kept, so nothing is counted while messages come in and an erased person
    leaves none. It looks at every message, so ask for one person at a time.
    """
    count = 0
    times = list[int]()
    subjects = dict[str, int]()
    reactions = list[str]()
    for who in person.identities:
        sender = SenderId.parse(who)
        key = (sender.channel, sender.account, sender.sender)
        sql = f"SELECT count(*), min(accepted_at), max(accepted_at) {_BY_SENDER}{_WRITTEN}"
        number, first, last = db.execute(sql, key).fetchall()[0]
        count += int(number)
        times += [each for each in (first, last) if each is not None]
        for subject, told in db.execute(
            "SELECT told.value ->> '$.subject', count(*) FROM outcome, json_each(outcome.body, '$.facts') AS told "
            f"WHERE outcome.id IN (SELECT id {_BY_SENDER}{_WRITTEN}) GROUP BY 1",
            key,
        ):
            subjects[str(subject)] = subjects.get(str(subject), 0) + int(told)
        reactions += _last_reactions(db, key)
    up = sum(each in LIKES for each in reactions)
    down = sum(each in DISLIKES for each in reactions)
    return ContactHistory(
        messages=count,
        first_at=maybe_from_micros(min(times, default=None)),
        last_at=maybe_from_micros(max(times, default=None)),
        topics=tuple(sorted(subjects, key=lambda each: (-subjects[each], each))[:MOST_TOPICS]),
        satisfaction=up / (up + down) if up + down else None,
    )


def read_last_texts(db: apsw.Connection, person: Person) -> list[str]:
    """The beginnings of a person's last messages, the newest first. Forwarded ones are not their words."""
    found: list[tuple[int, str]] = []
    for who in person.identities:
        sender = SenderId.parse(who)
        found += db.execute(
            f"SELECT id, substr(body ->> '$.text', 1, {LOOKED_AT}) {_BY_SENDER}{_WRITTEN} "
            "AND NOT coalesce(body ->> '$.forwarded', 0) AND id > (SELECT max(id) FROM inbound) - ? "
            "ORDER BY id DESC LIMIT 20",
            (sender.channel, sender.account, sender.sender, LOOKED_BACK),
        ).fetchall()
    return [str(text) for _, text in sorted(found, reverse=True)]


def _last_reactions(db: apsw.Connection, key: tuple[str, str, str]) -> list[str]:
    """The last reaction of a sender to each of our messages. Platforms number messages in each conversation anew."""
    given: dict[tuple[str, str], str] = {}
    for place, target, emoji in db.execute(
        "SELECT body ->> '$.conversation', body ->> '$.target', body ->> '$.text' "
        f"{_BY_SENDER}AND body ->> '$.kind' = 'reaction' ORDER BY id",
        key,
    ):
        given[str(place), str(target)] = str(emoji or "")[:1]
    ours = db.execute(
        "SELECT DISTINCT body ->> '$.conversation', platform_id FROM unit JOIN inbound ON inbound.id = unit.id >> 10 "
        "WHERE platform_id IN (SELECT value FROM json_each(?)) "
        "AND body ->> '$.channel' = ? AND body ->> '$.account' = ?",
        (write([target for _, target in given]), *key[:2]),
    )
    return [given[str(place), str(target)] for place, target in ours if (str(place), str(target)) in given]
