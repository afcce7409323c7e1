"""Contact history of a person, read from the messages that are kept: nothing is counted while messages come in.

It is gone with the messages, so that an erased person leaves none.
"""

from typing import Final

import apsw

from finclaw.kernel.erasure import SenderId
from finclaw.kernel.person import ContactHistory, Person
from finclaw.storage.sqlite.codec import from_micros

MOST_TOPICS: Final = 5
LIKES: Final = frozenset("👍❤🔥👏🎉😁🥰🤩💯🏆🙏👌")
DISLIKES: Final = frozenset("👎💩🤮😡🤬😢")
_BY_SENDER: Final = (
    "FROM inbound WHERE body ->> '$.channel' = ? AND body ->> '$.account' = ? AND body ->> '$.sender.id' = ? "
    "AND body ->> '$.said_by' IS NULL AND body ->> '$.limits' IS NULL AND body ->> '$.again_for' IS NULL "
)
_WRITTEN: Final = "AND coalesce(body ->> '$.kind', 'message') IN ('message', 'action', 'edit')"


def read_history(db: apsw.Connection, person: Person) -> ContactHistory:
    """The whole history of a person, by all their identities. It looks at every message, so ask for one at a time."""
    count, times, subjects, thumbs = 0, list[int](), dict[str, int](), dict[str, str]()
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
        rows = db.execute(
            f"SELECT body ->> '$.target', body ->> '$.text' {_BY_SENDER}AND body ->> '$.kind' = 'reaction' ORDER BY id",
            key,
        )
        thumbs.update((str(target), str(emoji or "")[:1]) for target, emoji in rows)
    return ContactHistory(
        messages=count,
        first_at=from_micros(min(times)) if times else None,
        last_at=from_micros(max(times)) if times else None,
        topics=tuple(sorted(subjects, key=lambda each: (-subjects[each], each))[:MOST_TOPICS]),
        satisfaction=_satisfaction(db, thumbs),
    )


def _satisfaction(db: apsw.Connection, thumbs: dict[str, str]) -> float | None:
    """The share of likes; only the last reaction to each of our own messages counts."""
    marks = ", ".join("?" * len(thumbs))
    ours = db.execute(f"SELECT DISTINCT platform_id FROM unit WHERE platform_id IN ({marks})", tuple(thumbs))
    given = [thumbs[str(target)] for (target,) in ours]
    up, down = sum(each in LIKES for each in given), sum(each in DISLIKES for each in given)
    return up / (up + down) if up + down else None
