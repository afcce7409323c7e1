"""The overflow of a full line: who is left out, and what is kept of their words."""

from collections import Counter
from collections.abc import Sequence
from typing import Final, Literal

from finclaw.redaction import hide_known_secrets
from finclaw.sessions.carried_over import SenderKey, key_of_sender
from finclaw.sessions.steering import JoinOffer

DropPolicy = Literal["summarise", "old", "new"]
"""What a full line does. `new`: it takes nobody in. `old`: who has waited longest is left out. `summarise`: likewise,
and one line of each is given to the sender's next turn."""

LONGEST_LINE: Final = 160


class Overflow:
    """The rule for full lines. It says what is kept of a message that is left out; who ends the message keeps it."""

    def __init__(self, cap: int, policy: DropPolicy) -> None:
        self._cap = cap
        self._policy = policy
        self._told: dict[str, set[SenderKey]] = {}
        """Who has heard of it, by session, until nobody waits there any more."""

    def make_room(self, session: str, waiting: Sequence[JoinOffer], newcomer: JoinOffer) -> JoinOffer | None:
        """Leave one out where the line is full: of whoever has most in it. Each hears of it once, while it lasts."""
        if not waiting:
            self._told.pop(session, None)
        if len(waiting) < self._cap:
            return None
        everybody = (*waiting, newcomer)
        numbers = Counter(key_of_sender(each.accepted.inbound) for each in everybody)
        most = max(numbers.values())
        own = key_of_sender(newcomer.accepted.inbound)
        whose = own if numbers[own] == most else next(who for who, number in numbers.items() if number == most)
        theirs = [each for each in everybody if key_of_sender(each.accepted.inbound) == whose]
        out = theirs[-1] if self._policy == "new" else theirs[0]
        told = self._told.setdefault(session, set())
        out.is_told = whose in told
        told.add(whose)
        out.drop_reason = f"left out: {len(waiting)} waited already, by sessions.queue.cap"
        if self._policy == "summarise":
            out.kept_line = shorten(out.words.text)
        return out


def shorten(text: str) -> str:
    line = " ".join(hide_known_secrets(text).split())
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"
