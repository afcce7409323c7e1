"""Retries of a model call: after a backoff, with another key, or of a fallback model, until it is answered.

What a person may already have seen of an answer is never said again: the next one is asked to go on from there.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from msgspec.structs import replace

from finclaw.agent.budget.call_ledger import CallCost, CallLedger, CallSettlement, OpenCall, Settle, UsageMeter, most_of
from finclaw.agent.model.answer import Answer, PartialAnswer, collect
from finclaw.agent.model.failover import (
    Cooldowns,
    ModelRoute,
    RetryPolicy,
    operator_hint,
    policy_for,
    reason_with_hint,
    requested_wait,
)
from finclaw.agent.turn_state.state import TurnState
from finclaw.diagnostics.crash_points import crash_point
from finclaw.errors import BudgetExceeded, ContextTooLong, ProviderError, ProviderTimeout
from finclaw.ids import new_id
from finclaw.kernel.chunk import Model, ModelRequest, Usage
from finclaw.kernel.event import ModelFellBack, ModelRetried, TextStreamed
from finclaw.kernel.message import Block, Message, Source, Text, Thinking
from finclaw.kernel.port import Clock
from finclaw.redaction.redact import describe_error
from finclaw.transcript.history import with_more
from finclaw.transcript.request_sanitizer import without_thinking

log = logging.getLogger(__name__)

FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 30.0
LONGEST_WISH: Final = 60.0  # seconds; who asks us to wait longer is not waited for

GO_ON: Final = (
    "[Your answer was cut off behind its last words above. Go on exactly there. "
    "Repeat nothing, and do not mention this.]"
)

RequestFor = Callable[[Model], Awaitable[ModelRequest]]
"""The question as this model gets it; raises ContextTooLong where nothing that it could take can be made of it."""


class ModelRetry:
    """The retries of one request. The caller keeps the `costs` of an answer; the turn's log has all others already."""

    def __init__(
        self,
        turn: TurnState,
        clock: Clock,
        cooldowns: Cooldowns,
        dice: random.Random,
        meter: UsageMeter,
        *,
        side_call: bool = False,
        said: list[str] | None = None,
    ) -> None:
        """`side_call`: nobody follows this answer as it comes. `said` is what was seen of it before, and grows."""
        self._side_call = side_call
        self._turn = turn
        self._clock = clock
        self._cooldowns = cooldowns
        self._dice = dice
        self._meter = meter
        self._said = [] if said is None else said
        self.costs: list[CallCost] = turn.log.side_costs if side_call else []
        self._call: InFlightCall | None = None
        self.asked: Model | None = None

    async def __call__(self, routes: Sequence[ModelRoute], request: RequestFor) -> tuple[Answer, ModelRoute]:
        """Raises the last ProviderError when nobody answers, or BudgetExceeded when nobody may be asked."""
        turn_log = self._turn.log
        if not self._side_call:
            turn_log.trying = self.costs
        try:
            return await self._ask_routes(routes, request)
        except BaseException:  # also when it is stopped: what was paid for is counted, whatever came of it
            if not self._side_call:
                turn_log.side_costs.extend(self.costs)
                turn_log.trying = ()
            raise

    def settle(self) -> None:
        """Pay now for what has come of an answer that is no longer wanted."""
        if self._call is not None:
            self._call.settle(cut_off=True)

    async def _ask_routes(self, routes: Sequence[ModelRoute], request: RequestFor) -> tuple[Answer, ModelRoute]:
        failure: ProviderError | BudgetExceeded | None = None
        order = self._in_order(routes)
        for place, route in enumerate(order):
            if failure is not None and not self._may_do_better(route, failure):
                continue
            try:
                fitted = await request(route.model)
            except ContextTooLong as error:  # it was not asked, and the next may have a larger window
                failure = failure or error
                continue
            if failure is not None:
                self._tell_next(route, failure)
            self.asked = route.model
            spare = any(other.model.id == route.model.id for other in order[place + 1 :])
            try:
                answer = await self._answer(route, fitted, spare=spare)
            except ProviderError as error:
                failure = error
                policy = policy_for(error)
                error.beside = error.beside or operator_hint(error, route.key)
                self._cooldowns.note(route.key, error, policy.cools, requested_wait(error))
                if not policy.elsewhere:
                    raise
            except BudgetExceeded as error:  # a cheaper model may still fit
                failure = error
            else:
                if self._cooldowns.any:
                    self._cooldowns.note_answer(route.key)
                return answer, route
        raise failure or ProviderError("there is no model to ask; set agent.model")

    def _in_order(self, routes: Sequence[ModelRoute]) -> Sequence[ModelRoute]:
        """As they were chosen, without those that failed a moment ago; if all have, then all the same."""
        if not self._cooldowns.any:
            return routes
        return [route for route in routes if not self._cooldowns.remaining(route.key)] or routes

    def _may_do_better(self, route: ModelRoute, failure: ProviderError | BudgetExceeded) -> bool:
        """Another model may, and by another key the same one, if it was the key."""
        return self._is_another(route) or (isinstance(failure, ProviderError) and policy_for(failure).key)

    def _is_another(self, route: ModelRoute) -> bool:
        return self.asked is None or route.model.id != self.asked.id

    async def _answer(self, route: ModelRoute, request: ModelRequest, *, spare: bool) -> Answer:
        """`spare`: there is another key for the same model, so nobody waits for this one."""
        attempt = 1
        refusal: ProviderError | None = None
        while True:
            try:
                return await self._once(route, request)
            except ProviderError as error:
                policy = policy_for(error)
                if refusal is not None and policy.without_thinking:
                    raise refusal from error  # so the model's thoughts were not the reason
                plain = self._without_thinking(request, policy)
                if plain is not None:
                    self._tell_retry(route, error, attempt, wait=0.0, plain=True)
                    request = plain
                    refusal = error
                    continue
                wait = self._pause(error, attempt)
                if wait is None or (spare and policy.key):
                    raise
                self._tell_retry(route, error, attempt, wait)
                await self._clock.sleep(wait)
                attempt += 1

    def _without_thinking(self, request: ModelRequest, policy: RetryPolicy) -> ModelRequest | None:
        """Return the request without thoughts, once in a turn: all later requests of the turn are written so."""
        if not policy.without_thinking or self._turn.without_thinking:
            return None
        plain = without_thinking(request)
        self._turn.without_thinking = plain is not None
        return plain

    def _pause(self, error: ProviderError, attempt: int) -> float | None:
        wish = requested_wait(error)
        if not policy_for(error).again or attempt >= self._turn.attempts or wish > LONGEST_WISH:
            return None
        longest = min(FIRST_PAUSE * 2**attempt, LONGEST_PAUSE)
        return max(wish, self._dice.uniform(longest / 2, longest))

    async def _once(self, route: ModelRoute, request: ModelRequest) -> Answer:
        request = self._continue_request(request)
        settlement, settle = await self._reserve(request)
        call = self._call = InFlightCall(settlement, settle, self._clock, self.costs, self._turn.log.ledger)
        before = tuple(self._said)
        try:
            call.open = await self._turn.log.begin_call(settlement.most)
            crash_point("model:reserved")
            answer = await self._collect_in_time(route, request, call.heard)
            call.whole = True
        except BaseException as error:
            call.settle(cut_off=isinstance(error, (asyncio.CancelledError, ProviderTimeout)))
            raise
        call.settle()
        crash_point("model:settled")
        answer = replace(answer, usage=settlement.correct(answer.usage))  # of this try alone
        if not before:
            return answer
        blocks = _prepend_text("".join(before), answer.blocks)
        return replace(answer, blocks=blocks, lengths=(*map(len, before), *answer.lengths))

    async def _collect_in_time(self, route: ModelRoute, request: ModelRequest, heard: PartialAnswer) -> Answer:
        if route.within is None:
            return await collect(route.provider.stream(request), self._hear, heard)
        try:
            async with asyncio.timeout(route.within):
                return await collect(route.provider.stream(request), self._hear, heard)
        except TimeoutError as error:
            raise ProviderTimeout(f"{route.model.id} was not done within {route.within:g} s") from error

    async def _reserve(self, request: ModelRequest) -> tuple[CallSettlement, Settle]:
        """Hold the most that the call may cost, where there is a budget."""
        size = self._meter.size(request, whole=self._turn.guard is not None)
        most = most_of(request.model, size.tokens, request.max_tokens, self._turn.log.ledger.payer, self._clock.now())
        settlement = CallSettlement(self._meter, request, size, most)
        if self._turn.budget is None:
            return settlement, settlement
        return settlement, await self._turn.budget.pay_for(request.model, most.cost, settlement)

    def _hear(self, text: str) -> None:
        self._said.append(text)
        if not self._side_call:
            self._turn.ctx.emit(TextStreamed(text=text, **self._turn.ctx.ids))

    def _continue_request(self, request: ModelRequest) -> ModelRequest:
        said = "".join(self._said)  # with the space at its end: without, the model would write that once more
        if not said.strip():
            return request
        now = self._clock.now()
        cut_off = Message(new_id(), "assistant", (Text(said),), Source("assistant"), now)
        go_on = Message(new_id(), "user", (Text(GO_ON),), Source("system"), now)
        return replace(request, messages=with_more(request.messages, (cut_off, go_on)))

    def _tell_next(self, route: ModelRoute, failure: ProviderError | BudgetExceeded) -> None:
        if self._is_another(route):
            chosen = self._turn.ctx.model.id
            instead = route.model.id
            reason = describe_error(failure)
            log.warning("%s did not answer, so now %s is asked: %s", chosen, instead, reason_with_hint(failure))
            self._turn.ctx.emit(ModelFellBack(model=chosen, instead=instead, error=reason, **self._turn.ctx.ids))
        elif isinstance(failure, ProviderError):
            log.warning("a key was not taken, so now the key %s is: %s", route.credential, reason_with_hint(failure))
            self._tell_retry(route, failure, attempt=1, wait=0.0, credential=route.credential)

    def _tell_retry(
        self,
        route: ModelRoute,
        error: ProviderError,
        attempt: int,
        wait: float,
        credential: str = "",
        *,
        plain: bool = False,
    ) -> None:
        self._turn.ctx.emit(
            ModelRetried(
                model=route.model.id,
                error=describe_error(error),
                attempt=attempt,
                wait_s=round(wait, 3),
                credential=credential,
                plain=plain,
                **self._turn.ctx.ids,
            )
        )


def _prepend_text(said: str, blocks: Sequence[Block]) -> tuple[Block, ...]:
    """Thinking comes first in a message, then what was said before, and right behind that how it went on."""
    if not said:
        return tuple(blocks)
    place = next((place for place, block in enumerate(blocks) if not isinstance(block, Thinking)), len(blocks))
    rest = list(blocks[place:])
    if rest and isinstance(first := rest[0], Text):
        rest[0] = Text(said + first.text)
    else:
        rest.insert(0, Text(said))
    return (*blocks[:place], *rest)


class InFlightCall:
    """If the call has cost anything, `paid` and the turn's ledger get its line."""

    def __init__(
        self, settlement: CallSettlement, settle: Settle, clock: Clock, paid: list[CallCost], ledger: CallLedger
    ) -> None:
        self._settlement = settlement
        self._settle = settle
        self._clock = clock
        self._paid = paid
        self._ledger = ledger
        self._settled = False
        self.open: OpenCall | None = None  # set once it is on disk: the request may have left
        self.heard = PartialAnswer()
        self.whole = False

    def settle(self, *, cut_off: bool = False) -> None:
        """`cut_off`: it is we who left, so nobody said that it costs nothing; what was sent is paid for."""
        if self._settled:
            return
        self._settled = True
        cut_off = cut_off and self.open is not None and not self.whole
        begun = self.heard.begun or cut_off
        usage, cost, overstated = self._settle(self.heard.usage, begun=begun, said=self.heard.text(), whole=self.whole)
        paid = None
        if usage != Usage():
            model = self._settlement.model
            saved = model.saved(usage)
            paid = CallCost(self._clock.now(), model.id, usage, cost, saved, cut_off=cut_off, overstated=overstated)
            self._paid.append(paid)
        if self.open is not None:
            self._ledger.end(self.open, paid)
