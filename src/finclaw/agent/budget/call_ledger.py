"""The ledger of one turn's model calls: what is reserved on disk, what is under way, what the books have yet to get.

It decides nothing and writes nothing itself: each commit of the turn takes its state along.
"""

import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, NamedTuple, cast

from msgspec import Struct, convert
from msgspec.structs import astuple

from finclaw.clock import local_day
from finclaw.kernel.chunk import Model, Usage
from finclaw.kernel.message import Message
from finclaw.kernel.record import Claim, Spend, TurnCalls
from finclaw.spend_lines import mark_interrupted, merge_lines


class CallCost(Struct, frozen=True):
    """The cost of one call."""

    at: datetime
    model: str
    usage: Usage
    cost: Decimal
    saved: Decimal
    """By the cache."""
    cut_off: bool = False
    """We left before the answer had come to its end."""
    overstated: bool = False
    """The server reported more than the call can have cost; the most that was reserved for it is booked."""

    @property
    def day(self) -> date:
        return local_day(self.at)


class Payer(NamedTuple):
    """The agent and the user who are charged."""

    agent: str = ""
    user: str = ""


class OpenCall(NamedTuple):
    """A model call that may be under way. `on_disk`: a reservation that was committed before covers it."""

    reserved: Spend
    on_disk: bool


class CallLedger:
    """The ledger of one turn's model calls."""

    def __init__(self, claim: Claim, payer: Payer) -> None:
        self.payer = payer
        self.before: Sequence[Spend] = claim.beside
        """Calls of earlier processes that the turn's log does not tell of."""
        self.settled: list[CallCost] = []
        """Every call that this process has paid for, whatever came of it."""
        self._ahead: Sequence[Spend] = claim.reserved
        self._under_way: list[OpenCall] = []
        self._unbooked: list[CallCost] = []

    # ── a call's life ───────────────────────────────────────────────────────────────────────────────────────

    def reserve_ahead(self, most: Spend | None) -> None:
        """Let the next commit reserve a call that will follow it; None: none will."""
        self._ahead = () if most is None else (most,)

    def begin(self, most: Spend) -> OpenCall:
        """Count a call as under way. If its reservation is not on disk, commit before its request leaves."""
        ahead = next((each for each in self._ahead if _covers(each, most)), None)
        call = OpenCall(most, on_disk=False) if ahead is None else OpenCall(ahead, on_disk=True)
        self._ahead = ()  # it was meant for this call, whether or not it is large enough
        self._under_way.append(call)
        return call

    def end(self, call: OpenCall, paid: CallCost | None) -> None:
        """Of a call that is over, or never left: `paid` is what it has cost."""
        self._under_way = [each for each in self._under_way if each is not call]
        if paid is not None:
            self.add_unbooked([paid])

    def add_unbooked(self, paid: Iterable[CallCost]) -> None:
        for each in paid:
            self.settled.append(each)
            self._unbooked.append(each)

    # ── what a commit takes along ───────────────────────────────────────────────────────────────────────────

    def take(self, beside: Iterable[CallCost]) -> tuple[TurnCalls, Sequence[CallCost]]:
        """The state for a commit, and the calls that it enters into the books: to be given back if it fails."""
        taken, self._unbooked = self._unbooked, []
        calls = TurnCalls(
            reserved=(*self._ahead, *(call.reserved for call in self._under_way)),
            beside=self._beside(beside),
            spend=lines_of(taken, self.payer),
        )
        return calls, taken

    def give_back(self, taken: Sequence[CallCost]) -> None:
        self._unbooked = [*taken, *self._unbooked]

    def unbooked_lines(self) -> tuple[Spend, ...]:
        return lines_of(self._unbooked, self.payer)

    def put_back(self, beside: Iterable[CallCost]) -> TurnCalls:
        """The state of a turn that is left for the next process: a call that was cut off for that is interrupted."""
        lines = (line for paid in self._unbooked for line in lines_of([paid], self.payer, mark=paid.cut_off))
        return TurnCalls(beside=self._beside(beside), spend=merge_lines(lines))

    def _beside(self, paid: Iterable[CallCost]) -> tuple[Spend, ...]:
        return merge_lines((*self.before, *lines_of(paid, self.payer)))


def lines_of(paid: Iterable[CallCost], payer: Payer, *, mark: bool = False) -> tuple[Spend, ...]:
    """A line for each day and model; `mark` them as interrupted."""
    lines = merge_lines(
        Spend(
            day=each.day,
            agent=payer.agent,
            user=payer.user,
            model=each.model,
            calls=1,
            usage=each.usage,
            cost=each.cost,
            saved=each.saved,
            overstated=int(each.overstated),
        )
        for each in paid
    )
    return tuple(map(mark_interrupted, lines)) if mark else lines


def _covers(reserved: Spend, most: Spend) -> bool:
    """Whether a call may leave on this reservation: of the same day and model, and for no less."""
    return (reserved.day, reserved.model) == (most.day, most.model) and reserved.cost >= most.cost


_NOTHING: Final = Decimal(0)
_AS_WRITTEN: Final[list[type]] = [int] * 4
"""The four numbers of a usage, as we write it."""


def to_metadata(model: Model, tries: list[CallCost]) -> dict[str, Any]:
    """For the answer of `model`: its own call and those before it that failed, each at the price of its model."""
    usage, cost, saved = Usage(), _NOTHING, _NOTHING
    for each in tries:
        usage, cost, saved = usage + each.usage, cost + each.cost, saved + each.saved
    # Kept with every answer in memory and on disk, so as little as will do.
    metadata: dict[str, Any] = {"usage": list(astuple(usage)), "model": sys.intern(model.id)}
    if cost:
        metadata["cost"] = str(cost)
    if saved:
        metadata["saved"] = str(saved)
    return metadata


def from_metadata(message: Message) -> CallCost:
    told = message.metadata
    return CallCost(
        message.created_at, str(told.get("model", "")), usage_of(message), _amount(told, "cost"), _amount(told, "saved")
    )


def usage_of(message: Message) -> Usage:
    """What this answer cost in tokens: its four numbers, or by name, as they were once written."""
    told = message.metadata.get("usage", ())
    if isinstance(told, list) and list(map(type, cast("list[Any]", told))) == _AS_WRITTEN:
        return Usage(*cast("list[int]", told))
    return convert(told, Usage) if isinstance(told, dict) else Usage(*convert(told, tuple[int, ...])[:4])


def measured_size(answer: Message) -> int:
    """The size of the conversation up to and with this answer, by the model's own count; 0 where it gave none."""
    if answer.source.kind != "assistant":
        return 0
    told = answer.metadata.get("context")
    return told if isinstance(told, int) else usage_of(answer).total


def _amount(told: Mapping[str, Any], name: str) -> Decimal:
    return Decimal(str(told[name])) if name in told else _NOTHING
