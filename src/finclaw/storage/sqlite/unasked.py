"""What people were told without having asked: cards, reminders, expiries, what came of an approved action."""

from typing import Final

import apsw

from finclaw.kernel.record import Unsolicited
from finclaw.storage.sqlite import inbox
from finclaw.storage.sqlite.codec import Ids

LOOKED_BACK: Final = 10_000
"""Messages of everybody. Whoever was away for longer has other ways to find out, and the look must stay a short one."""

_UNASKED: Final = (
    "SELECT inbound.id, kind FROM inbound JOIN session ON session.id = session WHERE key = ? AND inbound.id > ? "
    "AND (body ->> 'said_by' IS NOT NULL OR body ->> 'limits' IS NOT NULL OR body ->> 'again_for' IS NOT NULL) "
    "ORDER BY inbound.id"
)


def told(db: apsw.Connection, ids: Ids, session: str, after: str | None) -> Unsolicited:
    """The place to go on from is just before the first that has not ended, so that it is not passed by."""
    newest = int(db.execute("SELECT coalesce(max(id), 0) FROM inbound").get)
    known = None if after is None else ids.row(after)
    since = max(0, newest - LOOKED_BACK, known or 0)
    found = [(int(row), kind is not None) for row, kind in db.execute(_UNASKED, (session, since))]
    place = min((row - 1 for row, has_ended in found if not has_ended), default=newest)
    rows = [row for row, has_ended in found if has_ended and known is not None]
    records = [inbox.find(db, ids, ids.inbound(row)) for row in rows]
    return Unsolicited(items=tuple(each for each in records if each is not None), after=ids.inbound(place))
