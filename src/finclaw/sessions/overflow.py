"""The overflow of a full line: who is left out, and what is kept of their words."""

from collections import Counter, deque
from collections.abc import Sequence
from typing import Final, Literal

from msgspec import Struct

from finclaw.kernel.envelope import Inbound
from finclaw.sessions.steering import JoinOffer

DropPolicy = Literal["summarise", "old", "new"]
"""What a full line does. `new`: it takes nobody in. `old`: who has waited longest is left out. `summarise`: likewise,
and one line of each is given to the sender's next turn."""

LONGEST_LINE: Final = 160
SenderKey = tuple[str, str, str, str | None, str]


class LeftOut(Struct, frozen=True):
    """What is kept of one person's messages that were left out: the last ones in a line each, and how many there were.

    The messages themselves stay in the store.
    """

    lines: tuple[str, ...]
    count: int

    def tell(self) -> str:
        earlier = self.count - len(self.lines)
        before = (f"(and {earlier} earlier)",) if earlier else ()
        told = "\n".join(f"- {line}" for line in (*before, *self.lines))
        return f"[{self.count} messages of mine were left out because too many waited; in short:]\n{told}"


class Overflow:
    """The rule for full lines, and the words that it keeps until their sender's next turn. A restart forgets them."""

    def __init__(self, cap: int, policy: DropPolicy) -> None:
        self._cap = cap
        self._policy = policy
        self._lines: dict[tuple[str, SenderKey], tuple[deque[str], int]] = {}
        self._told: dict[str, set[SenderKey]] = {}
        """Who has heard of it, by session, until nobody waits there any more."""

    def make_room(self, session: str, waiting: Sequence[JoinOffer], newcomer: JoinOffer) -> JoinOffer | None:
        """Leave one out where the line is full: of whoever has most in it. Each hears of it once, while it lasts."""
        if not waiting:
            self._told.pop(session, None)
        if len(waiting) < self._cap:
            return None
        everybody = (*waiting, newcomer)
        numbers = Counter(_sender(each.accepted.inbound) for each in everybody)
        most = max(numbers.values())
        own = _sender(newcomer.accepted.inbound)
        whose = own if numbers[own] == most else next(who for who, number in numbers.items() if number == most)
        theirs = [each for each in everybody if _sender(each.accepted.inbound) == whose]
        out = theirs[-1] if self._policy == "new" else theirs[0]
        told = self._told.setdefault(session, set())
        out.is_told = whose in told
        told.add(whose)
        out.drop_reason = f"left out: {len(waiting)} waited already, by sessions.queue.cap"
        if self._policy == "summarise":
            self._keep_line(session, whose, out.words.text)
        return out

    def _keep_line(self, session: str, whose: SenderKey, text: str) -> None:
        lines, count = self._lines.get((session, whose), (deque[str](maxlen=self._cap), 0))
        lines.append(shorten(text))
        self._lines[session, whose] = lines, count + 1

    def take_lines(self, session: str, inbound: Inbound) -> LeftOut | None:
        """What was kept for a turn of this sender. It is given once."""
        if not self._lines:
            return None
        kept = self._lines.pop((session, _sender(inbound)), None)
        return None if kept is None else LeftOut(tuple(kept[0]), kept[1])


def shorten(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= LONGEST_LINE else line[: LONGEST_LINE - 1] + "…"


def _sender(inbound: Inbound) -> SenderKey:
    return inbound.channel, inbound.account, inbound.conversation, inbound.thread, inbound.sender.id
