"""The costs of a turn's model calls: measured or estimated, reserved on disk, and entered into the books."""

import logging
import sys
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from math import ceil
from typing import Any, Final, NamedTuple, Protocol, cast

from msgspec import Struct, convert
from msgspec.structs import astuple, replace

from finclaw.agent.window.tokens import Estimator
from finclaw.clock import local_day
from finclaw.kernel.chunk import Model, ModelRequest, ToolSpec, Usage
from finclaw.kernel.message import Message
from finclaw.kernel.record import Claim, Spend, TurnCalls
from finclaw.spend_lines import mark_interrupted, merge_lines

log = logging.getLogger(__name__)


class CallCost(Struct, frozen=True):
    at: datetime
    model: str
    usage: Usage
    cost: Decimal
    saved: Decimal  # by the cache
    cut_off: bool = False  # we left before the answer had come to its end
    overstated: bool = False  # the report was impossible; the maximum is booked instead

    @property
    def day(self) -> date:
        return local_day(self.at)


class Payer(NamedTuple):
    agent: str = ""
    user: str = ""


class OpenCall(NamedTuple):
    """A model call under way. `on_disk`: a reservation that was committed before covers it."""

    reserved: Spend
    on_disk: bool


class CallLedger:
    def __init__(self, claim: Claim, payer: Payer) -> None:
        self.payer = payer
        self.before: Sequence[Spend] = claim.beside  # calls of earlier processes, not in the log
        self.settled: list[CallCost] = []  # every call that this process has paid for
        self._ahead: Sequence[Spend] = claim.reserved
        self._under_way: list[OpenCall] = []
        self._unbooked: list[CallCost] = []

    def reserve_ahead(self, most: Spend | None) -> None:
        """Let the next commit reserve a call that will follow it; None: none will."""
        self._ahead = (most,) if most else ()

    def begin(self, most: Spend) -> OpenCall:
        """Count a call as under way. If its reservation is not on disk, commit before its request leaves."""
        call = OpenCall(most, on_disk=False)
        for reserved in self._ahead:
            if (reserved.day, reserved.model) == (most.day, most.model) and reserved.cost >= most.cost:
                call = OpenCall(reserved, on_disk=True)
                break
        self._ahead = ()  # it was meant for this call, whether or not it is large enough
        self._under_way.append(call)
        return call

    def end(self, call: OpenCall, paid: CallCost | None) -> None:
        self._under_way = [each for each in self._under_way if each is not call]
        if paid is not None:
            self.add_unbooked([paid])

    def add_unbooked(self, paid: Iterable[CallCost]) -> None:
        added = list(paid)
        self.settled += added
        self._unbooked += added

    def take(self, beside: Iterable[CallCost]) -> tuple[TurnCalls, Sequence[CallCost]]:
        """The state for a commit, and the calls that it books: to be given back if it fails."""
        taken = self._unbooked
        self._unbooked = []
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


_NOTHING: Final = Decimal(0)
_AS_WRITTEN: Final[list[type]] = [int] * 4


def to_metadata(model: Model, tries: list[CallCost]) -> dict[str, Any]:
    """For the answer of `model`: its own call and those before it that failed, each at the price of its model."""
    usage = Usage()
    cost = _NOTHING
    saved = _NOTHING
    for call in tries:
        usage += call.usage
        cost += call.cost
        saved += call.saved
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
        at=message.created_at,
        model=str(told.get("model", "")),
        usage=usage_of(message),
        cost=_amount(told, "cost"),
        saved=_amount(told, "saved"),
    )


def _amount(told: Mapping[str, Any], name: str) -> Decimal:
    return Decimal(str(told[name])) if name in told else _NOTHING


def usage_of(message: Message) -> Usage:
    """What this answer cost in tokens: its four numbers, or by name, as they were once written."""
    told = message.metadata.get("usage", ())
    if isinstance(told, list) and list(map(type, cast("list[Any]", told))) == _AS_WRITTEN:
        return Usage(*cast("list[int]", told))
    if isinstance(told, dict):
        return convert(told, Usage)
    return Usage(*convert(told, tuple[int, ...])[:4])


def measured_size(answer: Message) -> int:
    """The size of the conversation up to and with this answer, by the model's own count; 0 where it gave none."""
    if answer.source.kind != "assistant":
        return 0
    measured = answer.metadata.get("context")
    return measured if isinstance(measured, int) else usage_of(answer).total


MARGIN: Final = Decimal("1.25")  # the estimated input is never under by more than a fifth
ADDED_BY_PROVIDER: Final = 600  # tokens that a provider may add, such as its own instructions
UNFORESEEN: Final = 2_000  # tokens that layers and memory may add to a reserved request


class Settled(NamedTuple):
    """What is booked for a call. `overstated`: the server reported more than the call can have cost."""

    usage: Usage
    cost: Decimal
    overstated: bool = False


class Settle(Protocol):
    def __call__(self, reported: Usage, *, begun: bool, said: str, whole: bool = True) -> Settled: ...


class Size(NamedTuple):
    """The size of a request in its model's tokens, and in ours; None where the model's last count was taken."""

    tokens: int
    counted: int | None


class UsageMeter:
    def __init__(self) -> None:
        self._estimators: dict[str, Estimator] = {}

    def estimator(self, model: Model) -> Estimator:
        name = model.id
        if name not in self._estimators:
            self._estimators[name] = Estimator(model.vocabulary)
        return self._estimators[name]

    def count(self, request: ModelRequest) -> int:
        estimator = self.estimator(request.model)
        tokens = estimator.tokens_of_head(request.system, request.tools)
        form = request.answer_schema
        if form is not None:
            tokens += estimator.tokens_of_tool(ToolSpec(form.name, "", form.schema))
        return tokens + sum(map(estimator.tokens_of, request.messages))

    def size(self, request: ModelRequest, *, whole: bool) -> Size:
        """Uses the model's last measurement instead of walking a long history, unless `whole` asks for a full count."""
        estimator = self.estimator(request.model)
        since = 0
        if not whole:
            for message in reversed(request.messages):
                if measured := measured_size(message):
                    return Size(measured + estimator.correction.to_model(since), None)
                since += estimator.tokens_of(message)
        counted = self.count(request)
        return Size(estimator.correction.to_model(counted), counted)

    def settle(
        self, request: ModelRequest, size: Size, reported: Usage, *, begun: bool, said: str, whole: bool
    ) -> Usage:
        """What a call of this size has used: as it was reported, else as estimated if an answer had begun to come.

        A stream that was cut, or that somebody stopped, is paid for all the same; so is one of a server that never
        reports anything. Of one that is not `whole` a report may be older than the last words. What is reported also
        corrects our own count.
        """
        estimator = self.estimator(request.model)
        measured = reported.input + reported.cache_read + reported.cache_write
        if size.counted is not None and measured <= request.model.window:
            estimator.correction.learn(size.counted, measured)
        told = reported != Usage()
        if not begun or (told and whole):
            return reported
        output = estimator.tokens_in(said)
        if told:
            return replace(reported, output=max(reported.output, output))
        return Usage(input=estimator.correction.to_model(self.count(request)), output=output)


class CallSettlement:
    """The settlement of one call: what it has used, and never more than was reserved for it."""

    def __init__(self, meter: UsageMeter, request: ModelRequest, size: Size, most: Spend) -> None:
        self._meter = meter
        self._request = request
        self._size = size
        self.model = request.model
        self.most = most

    def __call__(self, reported: Usage, *, begun: bool, said: str, whole: bool = True) -> Settled:
        used = self._meter.settle(self._request, self._size, reported, begun=begun, said=said, whole=whole)
        cost = self.model.cost(used)
        if self._is_possible(used) and cost <= self.most.cost:
            return Settled(used, cost)
        overstated = reported != Usage()
        if overstated:
            log.warning(
                "%s reported a usage of %s ($%s) for a call that can use at most %s ($%s); the maximum is booked",
                *(self.model.id, _describe(used), cost, _describe(self.most.usage), self.most.cost),
            )
        return Settled(_limit(used, self.most.usage), self.most.cost, overstated)

    def correct(self, reported: Usage) -> Usage:
        """The report itself if the model can have used so much; it may be more than our own count allowed for."""
        if self._is_possible(reported):
            return reported
        return _limit(reported, self.most.usage)

    def _is_possible(self, usage: Usage) -> bool:
        longest = max(self._request.max_tokens, self.model.max_output)
        return usage.total - usage.output <= self.model.window and usage.output <= longest


def _limit(usage: Usage, most: Usage) -> Usage:
    cache_read = min(usage.cache_read, most.input)
    cache_write = min(usage.cache_write, most.input - cache_read)
    return Usage(
        input=min(usage.input, most.input - cache_read - cache_write),
        output=min(usage.output, most.output),
        cache_read=cache_read,
        cache_write=cache_write,
    )


def _describe(usage: Usage) -> str:
    return f"{usage.total - usage.output:,} tokens in and {usage.output:,} out"


def most_of(model: Model, tokens: int, max_tokens: int, payer: Payer, now: datetime) -> Spend:
    """The most that a call may cost: a generous estimate of its input at the dearest price, and the longest answer."""
    input_tokens = ceil(tokens * MARGIN) + ADDED_BY_PROVIDER
    cost = _NOTHING
    if price := model.price:
        dearest = max(price.input, price.cache_read, price.cache_write)
        cost = (dearest * input_tokens + price.output * max_tokens) / 1_000_000
    return Spend(
        day=local_day(now),
        agent=payer.agent,
        user=payer.user,
        model=model.id,
        calls=1,
        usage=Usage(input=input_tokens, output=max_tokens),
        cost=cost,
        saved=_NOTHING,
    )
