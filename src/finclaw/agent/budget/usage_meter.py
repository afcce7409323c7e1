"""A meter of token usage: as the server reported it, else estimated where that is silent or too old."""

import logging
from datetime import datetime
from decimal import Decimal
from math import ceil
from typing import Final, NamedTuple, Protocol

from msgspec.structs import replace

from finclaw.agent.budget.call_ledger import Payer, measured_size
from finclaw.agent.window.tokens import Estimator
from finclaw.clock import local_day
from finclaw.kernel.chunk import Model, ModelRequest, ToolSpec, Usage
from finclaw.kernel.record import Spend

log = logging.getLogger(__name__)

MARGIN: Final = Decimal("1.25")
"""An estimate of the input is never under by more than a fifth."""
ADDED_BY_PROVIDER: Final = 600
"""Tokens that a provider may add to a request, such as its own instructions for the use of tools."""
UNFORESEEN: Final = 2_000
"""Tokens that a request may have beyond what is known when it is reserved ahead: what layers and memory add."""


class Settled(NamedTuple):
    """What is booked for a call. `overstated`: the server reported more than the call can have cost."""

    usage: Usage
    cost: Decimal
    overstated: bool = False


class Settle(Protocol):
    """A function that says what a call has used, whatever came of it."""

    def __call__(self, reported: Usage, *, begun: bool, said: str, whole: bool) -> Settled: ...


class Size(NamedTuple):
    """The size of a request, in the tokens of its model.

    `counted`: in ours; None where the model's last count was taken.
    """

    tokens: int
    counted: int | None


class UsageMeter:
    """A meter of usage in the tokens of each model, as far as we know them."""

    def __init__(self) -> None:
        self._estimators: dict[str, Estimator] = {}

    def estimator(self, model: Model) -> Estimator:
        name = model.id
        if name not in self._estimators:
            self._estimators[name] = Estimator(model.vocabulary)
        return self._estimators[name]

    def count(self, request: ModelRequest) -> int:
        """Tokens of a request, as we count them."""
        estimator = self.estimator(request.model)
        form = request.answer_schema
        schema = 0 if form is None else estimator.tokens_of_tool(ToolSpec(form.name, "", form.schema))
        head = estimator.tokens_of_head(request.system, request.tools)
        return head + schema + sum(map(estimator.tokens_of, request.messages))

    def size(self, request: ModelRequest, *, whole: bool) -> Size:
        """By what the model measured with its last answer, and what came since: no walk over a long history.

        `whole`: all of it is counted, for something was taken out of the conversation.
        """
        estimator, since = self.estimator(request.model), 0
        for message in () if whole else reversed(request.messages):
            if measured := measured_size(message):
                return Size(measured + estimator.correction.to_model(since), None)
            since += estimator.tokens_of(message)
        counted = self.count(request)
        return Size(estimator.correction.to_model(counted), counted)

    def settle(
        self, request: ModelRequest, size: Size, reported: Usage, *, begun: bool, said: str, whole: bool
    ) -> Usage:
        """What a call of this size has used; its report tells how far our own count was off."""
        measured = reported.input + reported.cache_read + reported.cache_write
        if size.counted is not None and measured <= request.model.window:
            self.estimator(request.model).correction.learn(size.counted, measured)
        return self.used_tokens(request, reported, begun=begun, said=said, whole=whole)

    def used_tokens(self, request: ModelRequest, reported: Usage, *, begun: bool, said: str, whole: bool) -> Usage:
        """As it was reported, else as estimated if an answer had begun to come.

        A stream that was cut, or that somebody stopped, is paid for all the same; so is one of a server that never
        reports anything. Of one that is not `whole` a report may be older than the last words.
        """
        told = reported != Usage()
        if not begun or (told and whole):
            return reported
        estimator = self.estimator(request.model)
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

    def __call__(self, reported: Usage, *, begun: bool, said: str, whole: bool) -> Settled:
        used = self._meter.settle(self._request, self._size, reported, begun=begun, said=said, whole=whole)
        model, cost = self.model, self.model.cost(used)
        if self._is_possible(used) and cost <= self.most.cost:
            return Settled(used, cost)
        if overstated := reported != Usage():
            log.warning(
                "%s reported a usage of %s ($%s) for a call that can use at most %s ($%s); the maximum is booked",
                *(model.id, _describe(used), cost, _describe(self.most.usage), self.most.cost),
            )
        return Settled(_limit(used, self.most.usage), self.most.cost, overstated)

    def correct(self, reported: Usage) -> Usage:
        """The report itself if the model can have used so much; it may be more than our own count allowed for."""
        return reported if self._is_possible(reported) else _limit(reported, self.most.usage)

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
    """The most that a call may cost, estimated generously: what it sends with a margin for the estimate's own error,
    at the price of the cache where that is dearer, and the longest answer that it may give.
    """
    price, input_tokens = model.price, ceil(tokens * MARGIN) + ADDED_BY_PROVIDER
    dearest = Decimal(0) if price is None else max(price.input, price.cache_read, price.cache_write) * input_tokens
    longest = Decimal(0) if price is None else price.output * max_tokens
    return Spend(
        day=local_day(now),
        agent=payer.agent,
        user=payer.user,
        model=model.id,
        calls=1,
        usage=Usage(input=input_tokens, output=max_tokens),
        cost=(dearest + longest) / 1_000_000,
        saved=Decimal(0),
    )
