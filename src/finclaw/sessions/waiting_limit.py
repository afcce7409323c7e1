"""The limit of unanswered messages of a session, and what became of those above it.

A program is told at once and may send the message again (`SessionFull`). A person in a chat cannot be told so: their
message is accepted, so that no other chat waits behind it, and ends as refused.
"""

from collections.abc import Callable

from finclaw.errors import SessionFull
from finclaw.kernel.record import Accepted
from finclaw.sessions.lane import Lanes


class WaitingLimit:
    """A limit for all sessions, by `pipeline.max_waiting`."""

    def __init__(self, lanes: Lanes, most: int) -> None:
        self._lanes = lanes
        self._most = most
        self._above: set[str] = set()
        """Ids of messages that were accepted above the limit and have not ended."""
        self._told: set[str] = set()
        """Sessions whose people know that they are full."""

    def check(self, session: str, is_exempt: Callable[[], bool] = lambda: False) -> None:
        """Raises SessionFull, unless the message is exempt: one that stops the others finds room."""
        waiting = self._lanes.count(session)
        if 2 * waiting < self._most:  # not at the first free place: whoever goes on writing was told just now
            self._told.discard(session)
        if waiting >= self._most and not is_exempt():
            raise SessionFull(f"{waiting} messages of this conversation wait for their answers; try again later")

    def accept_above(self, accepted: Accepted) -> None:
        """Note a message that was accepted in a full session."""
        self._above.add(accepted.id)

    def find_refusal(self, inbound_id: str) -> str | None:
        """Why a message is refused; None: it is not."""
        if inbound_id not in self._above:
            return None
        return f"{self._most} messages of the conversation waited for their answers, the most by pipeline.max_waiting"

    def must_tell(self, session: str) -> bool:
        """Whether the people of a session have yet to hear that it is full. It is asked when they are about to."""
        is_first = session not in self._told
        self._told.add(session)
        return is_first

    def leave(self, inbound_id: str) -> None:
        """A message has ended."""
        self._above.discard(inbound_id)
