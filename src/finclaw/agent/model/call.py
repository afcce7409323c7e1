"""A model call: one request, always streamed, always collected, its usage kept with the answer."""

import operator
import random
from collections import OrderedDict
from collections.abc import Sequence
from datetime import datetime
from functools import partial
from typing import Final

from msgspec.structs import replace

from finclaw.agent.budget.call_ledger import UNFORESEEN, CallCost, UsageMeter, most_of, usage_of
from finclaw.agent.model.answer import Answer, build_answer_message
from finclaw.agent.model.failover import Cooldowns, ModelRoute
from finclaw.agent.model.retry import ModelRetry
from finclaw.agent.prompt.turn_context_note import LENGTH_NOTES
from finclaw.agent.turn_state.state import TurnState
from finclaw.agent.window.compaction.options import CompactionSettings
from finclaw.agent.window.context_window import ContextWindow
from finclaw.errors import BadRequest, ContextTooLong
from finclaw.ids import new_id
from finclaw.kernel.chunk import Model, ModelRequest, ToolSpec
from finclaw.kernel.event import MessageCompleted, TextStreamed, UsageUpdated
from finclaw.kernel.message import Append, Message, Source, Text
from finclaw.kernel.port import Clock
from finclaw.transcript.approval_ids import holds_no_id, without_approval_ids, without_ids_in_message
from finclaw.transcript.history import as_messages, behind_pages, pages_of, with_pages
from finclaw.transcript.request_sanitizer import strip_thinking

MOST_SHORTENINGS: Final = 2  # for one call, after a refusal as too long
_MOST_CLEANED: Final = 1_024  # messages whose form without approval ids is remembered


class ModelCall:
    """`routes` are the ways to an answer: the chosen model first, then what is asked when it does not answer."""

    def __init__(self, routes: Sequence[ModelRoute], clock: Clock, compaction: CompactionSettings) -> None:
        self._routes = routes
        self._clock = clock
        self._cooldowns = Cooldowns(clock)
        self._dice = random.Random()
        self._meter = UsageMeter()
        self._window = ContextWindow(clock, self.make_side_call, self._meter.estimator, compaction)
        self._ids = ApprovalIdFilter()

    async def __call__(self, turn: TurnState, tools: tuple[ToolSpec, ...], step: int) -> Message:
        """Raises ProviderError; nothing of a failed answer is kept."""
        turn.state.move("streaming")
        say_how_long(turn, self._clock.now())
        answer, route, paid = await self._ask_until_it_fits(turn, tools)
        message = build_answer_message(answer, route.model, turn.ctx.model, paid, step, self._clock.now())
        if turn.guard is not None and route.model == turn.ctx.model:  # what another counted says nothing about this
            turn.guard.note_usage(answer.usage, message)
        usage = answer.usage
        context = usage.input + usage.cache_read + usage.cache_write
        total = turn.log.usage() + usage_of(message)
        turn.ctx.emit(MessageCompleted(message_id=message.id, step=step, **turn.ctx.ids))
        turn.ctx.emit(UsageUpdated(usage=total, context=context, **turn.ctx.ids))
        return message

    async def _ask_until_it_fits(
        self, turn: TurnState, tools: tuple[ToolSpec, ...]
    ) -> tuple[Answer, ModelRoute, list[CallCost]]:
        """What is too long for the window of the model that is asked is shortened, also when only the model knew."""
        shortened = 0
        said = self._resume_answer(turn)
        while True:
            retry = ModelRetry(turn, self._clock, self._cooldowns, self._dice, self._meter, said=said)
            try:
                answer, route = await retry(self._routes_of(turn), partial(self._request, turn, tools))
            except BadRequest as error:
                asked = retry.asked
                if asked is None:  # nobody's window is large enough
                    raise
                if not (isinstance(error, ContextTooLong) or self._window.may_have_overflowed(turn, tools, asked)):
                    raise
                shortened += 1
                if shortened > MOST_SHORTENINGS or not await self._window.shrink_after_refusal(turn, asked):
                    raise
            else:
                return answer, route, retry.costs

    @staticmethod
    def _resume_answer(turn: TurnState) -> list[str]:
        """What a person has seen of an answer that a crash cut off: the model goes on from there."""
        seen = turn.log.sent_text(len(turn.log.answers))
        if not seen:
            return []
        turn.ctx.emit(TextStreamed(text=seen, **turn.ctx.ids))
        return [seen]

    async def _request(self, turn: TurnState, tools: tuple[ToolSpec, ...], model: Model) -> ModelRequest:
        room = await self._window.fit(turn, tools, model)
        messages = turn.ctx.conversation.next_messages
        request = ModelRequest(
            model=model,
            system=turn.ctx.system,
            messages=strip_thinking(messages) if turn.without_thinking else as_messages(messages),
            tools=tools,
            max_tokens=room,
            temperature=turn.ctx.temperature,
            thinking=turn.ctx.thinking,
            stop_sequences=turn.stop_sequences if model.features.stop_sequences else (),
        )
        return self._ids.take_out(request)

    def _routes_of(self, turn: TurnState) -> Sequence[ModelRoute]:
        if turn.picked:
            return tuple(replace(route, model=turn.ctx.model) for route in turn.picked)
        chosen = self._routes[0].model
        if turn.ctx.model is chosen:
            return self._routes
        # A layer has chosen another: by the same keys.
        return [replace(each, model=turn.ctx.model) if each.model is chosen else each for each in self._routes]

    def head_tokens(self, system: str, tools: tuple[ToolSpec, ...]) -> int:
        estimator = self._meter.estimator(self._routes[0].model)
        return estimator.correction.to_model(estimator.tokens_of_head(system, tools))

    def estimate(self, model: Model, system: str, tools: tuple[ToolSpec, ...], messages: Sequence[Message]) -> int:
        estimator = self._meter.estimator(model)
        counted = estimator.tokens_of_head(system, tools) + sum(map(estimator.tokens_of, messages))
        return estimator.correction.to_model(counted)

    def reserve_next(self, turn: TurnState, tools: tuple[ToolSpec, ...]) -> None:
        """Reserve the call that will follow the turn's next commit, as far as it is known by then."""
        messages = as_messages(turn.ctx.conversation.next_messages)
        model = turn.ctx.model
        ledger = turn.log.ledger
        request = ModelRequest(model=model, system=turn.ctx.system, messages=messages, tools=tools)
        tokens = self._meter.size(request, whole=turn.guard is not None).tokens + UNFORESEEN
        ledger.reserve_ahead(most_of(model, tokens, turn.longest_answer, ledger.payer, self._clock.now()))

    async def make_side_call(self, turn: TurnState, request: ModelRequest) -> str:
        """For the turn itself: nobody sees the answer, and it is paid for beside the turn's own calls."""
        request = self._ids.take_out(request)
        retry = ModelRetry(turn, self._clock, self._cooldowns, self._dice, self._meter, side_call=True)

        async def same(model: Model) -> ModelRequest:
            return replace(request, model=model)

        answer, _ = await turn.side_calls.ask(retry(self._routes_of(turn), same), retry.settle)
        return "".join(block.text for block in answer.blocks if isinstance(block, Text))


class ApprovalIdFilter:
    """Messages that need no change, and changed ones from request to request, stay identical objects for caching."""

    def __init__(self) -> None:
        self._changed: OrderedDict[str, tuple[Message, Message]] = OrderedDict()

    def take_out(self, request: ModelRequest) -> ModelRequest:
        messages = self._clean(request.messages)
        system = without_approval_ids(request.system)
        if messages is request.messages and system is request.system:
            return request
        return replace(request, messages=messages, system=system)

    def _clean(self, messages: Sequence[Message]) -> Sequence[Message]:
        pages = pages_of(messages)
        tail = behind_pages(messages)
        clean_pages = tuple([page.without_approval_ids() for page in pages])
        same_pages = all(map(operator.is_, clean_pages, pages))  # by identity: equal ones would be read to the end
        if same_pages and all(map(holds_no_id, tail)):
            return messages
        clean_tail = tuple([self._clean_message(message) for message in tail])
        if same_pages and all(map(operator.is_, clean_tail, tail)):
            return messages
        return with_pages(clean_pages, clean_tail)

    def _clean_message(self, message: Message) -> Message:
        if holds_no_id(message):
            return message
        clean = without_ids_in_message(message)
        if clean is message:
            return message
        former = self._changed.get(message.id)
        if former is not None and former[0] is message:
            return former[1]
        self._changed[message.id] = message, clean
        if len(self._changed) > _MOST_CLEANED:
            self._changed.popitem(last=False)
        return clean


KEY: Final = "verbosity"


def say_how_long(turn: TurnState, now: datetime) -> None:
    """Note the length of the answers before each call: a layer may have changed it. Said once, and when it changes."""
    said = next((each.text for each in reversed(turn.log.messages) if each.passing == KEY), None)
    if said is None and turn.ctx.verbosity == "medium":
        return
    wanted = LENGTH_NOTES[turn.ctx.verbosity]
    if wanted != said:
        turn.log.push(Append(Message(new_id(), "system", (Text(wanted),), Source("system"), now, passing=KEY)))
