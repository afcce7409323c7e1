"""Contact history of a person, read from the messages that are kept: nothing is counted while messages come in.

It is gone with the messages, so that an erased person leaves none.
"""

from typing import Final

import apsw

from finclaw.kernel.person import ContactHistory, Person
from finclaw.kernel.record import SenderId
from finclaw.storage.sqlite.codec import from_micros, write
from finclaw.text import LOOKED_AT

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
    """The whole history of a person, by all their identities. It looks at every message, so ask for one at a time."""
    count = 0
    times = list[int]()
    subjects = dict[str, int]()
    reactions = list[str]()
    for who in person.identities:
        sender = SenderId.parse(who)
        key = (sender.channel, sender.account, sender.sender)
        number, first, last = db.execute(
            f"SELECT count(*), min(accepted_at), max(accepted_at) {_BY_SENDER}{_WRITTEN}", key
        ).fetchall()[0]
        count += int(number)
        times += [int(each) for each in (first, last) if each is not None]
        for subject, told in db.execute(
            "SELECT told.value ->> '$.subject', count(*) FROM outcome, json_each(outcome.body, '$.facts') AS told "
            f"WHERE outcome.id IN (SELECT id {_BY_SENDER}{_WRITTEN}) GROUP BY 1",
            key,
        ):
            subjects[str(subject)] = subjects.get(str(subject), 0) + int(told)
        reactions += _last_reactions(db, key)
    return ContactHistory(
        messages=count,
        first_at=from_micros(min(times)) if times else None,
        last_at=from_micros(max(times)) if times else None,
        topics=tuple(sorted(subjects, key=lambda each: (-subjects[each], each))[:MOST_TOPICS]),
        satisfaction=_satisfaction(reactions),
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


def _satisfaction(reactions: list[str]) -> float | None:
    """The share of likes."""
    up = sum(each in LIKES for each in reactions)
    down = sum(each in DISLIKES for each in reactions)
    return up / (up + down) if up + down else None
