"""The model's context window: a cheap check while there is plenty of room, a guard over every request when not."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from finclaw.agent.budget.call_ledger import measured_size
from finclaw.agent.turn_state.state import TurnState
from finclaw.agent.window.capacity import Capacity, Thresholds
from finclaw.agent.window.compaction import Compactor, Summaries
from finclaw.agent.window.compaction.options import CompactionSettings
from finclaw.agent.window.compaction.summary import instructions, transcript
from finclaw.agent.window.guard import ContextGuard, ContextPolicy
from finclaw.agent.window.size import ContextSizes
from finclaw.agent.window.tokens import CorrectionFactor, Estimator, characters_of
from finclaw.errors import ProviderTimeout
from finclaw.ids import new_id
from finclaw.kernel.chunk import Model, ModelRequest, ToolSpec, Usage, Vocabulary
from finclaw.kernel.message import Message, Source, Text
from finclaw.kernel.port import Clock

LOOK_CLOSER: Final = 0.6
"""Of the window. Below it there is nothing to warn of, and nobody need count."""
NEARLY_FULL: Final = 0.8
"""Of what goes in. Our estimates are never under by more than a fifth, so from here on it may have been too much."""
SUMMARY_SECONDS: Final = 180.0

MakeSideCall = Callable[[TurnState, ModelRequest], Awaitable[str]]
"""A question of our own: its answer is no part of the conversation, and is paid for like any."""


class ContextWindow:
    """The context window of every model. `estimator` is that of a model, the same with which its calls are paid for."""

    def __init__(
        self, clock: Clock, ask: MakeSideCall, estimator: Callable[[Model], Estimator], compaction: CompactionSettings
    ) -> None:
        self._clock = clock
        self._compaction = compaction
        self._look_closer = min(LOOK_CLOSER, compaction.start * LOOK_CLOSER / 0.85)
        self._ask = ask
        self._estimator = estimator
        self._sizes: dict[Vocabulary, ContextSizes] = {}

    async def fit(self, turn: TurnState, tools: tuple[ToolSpec, ...], model: Model) -> int:
        """Before each call, of the model that will be asked: the longest answer that it may be asked for.

        Raises ContextTooLong when what must be sent is too much for it.
        """
        longest = _longest_answer(turn, model)
        is_guarded = turn.guard is not None and model == turn.ctx.model
        if not is_guarded and not self._may_be_tight(turn, tools, model):
            return longest
        return await self._guard(turn, model).fit(model, longest, turn.ctx.system, tools)

    def note_usage(self, turn: TurnState, usage: Usage, answer: Message) -> None:
        """After each answer, before it is in the conversation."""
        if turn.guard is not None:
            turn.guard.note_usage(usage, answer)

    async def shrink_after_refusal(self, turn: TurnState, model: Model) -> bool:
        """The model that was asked refused the request as too long. False: nothing more can be taken away."""
        return await self._guard(turn, model).shrink_after_refusal(model, _longest_answer(turn, model))

    def may_have_overflowed(self, turn: TurnState, tools: tuple[ToolSpec, ...], model: Model) -> bool:
        """Many servers have only words for it, and words are not read: a refusal of what by our own count nearly
        fills the window is taken for this one.
        """
        messages = sum(map(self._estimator(model).tokens_of, turn.ctx.conversation.next_messages))
        capacity = Capacity.of(model, _longest_answer(turn, model), Thresholds())
        head = self._estimator(model).tokens_of_head(turn.ctx.system, tools)
        return capacity.ratio(head + messages) >= NEARLY_FULL

    # ── a glance ────────────────────────────────────────────────────────────────────────────────────────────

    def _may_be_tight(self, turn: TurnState, tools: tuple[ToolSpec, ...], model: Model) -> bool:
        """By what a model itself measured last, and what came since at a token a character, which is too much
        for nearly everything: no walk over the history, and nothing to remember.
        """
        limit = min(model.window * self._look_closer, model.window - _longest_answer(turn, model))
        since = 0
        for message in reversed(turn.ctx.conversation.next_messages):
            if measured := measured_size(message):
                return measured + since >= limit
            since += characters_of(message)
            if since >= limit:
                return True
        return self._estimator(model).tokens_of_head(turn.ctx.system, tools) + since >= limit

    def _correction_of(self, model: Model) -> CorrectionFactor:
        return self._estimator(model).correction

    # ── the guard ───────────────────────────────────────────────────────────────────────────────────────────

    def _guard(self, turn: TurnState, model: Model) -> ContextGuard:
        """The turn keeps that of its own model. One that steps in seldom gets another: it counts in other tokens, and
        a summary must be asked for in pieces that it can read.
        """
        if model != turn.ctx.model:
            return self._new_guard(turn, model)
        if turn.guard is None:
            turn.guard = self._new_guard(turn, model)
        return turn.guard

    def _new_guard(self, turn: TurnState, model: Model) -> ContextGuard:
        estimator = self._estimator(model)
        count, count_text = estimator.tokens_of, estimator.tokens_in
        sizes = self._sizes.setdefault(model.vocabulary, ContextSizes(count, count_text, self._correction_of))
        summaries = Summaries(self._summariser(turn, model), count, count_text, model.window)
        return ContextGuard(
            turn.ctx.conversation,
            turn.log.push,
            input_id=turn.ctx.input.id,
            size=sizes.of(turn.ctx.ids["session"]),
            compact=Compactor(summaries, count, count_text, self._clock.now),
            emit=turn.ctx.emit,
            ids=turn.ctx.ids,
            policy=ContextPolicy.of(self._compaction) if turn.guard is None else turn.guard.policy,
        )

    def _summariser(self, turn: TurnState, model: Model) -> Callable[[Sequence[Message], int], Awaitable[str]]:
        async def summarise(messages: Sequence[Message], limit: int) -> str:
            text = (Text(transcript(messages)),)
            request = ModelRequest(
                model=model,
                system=instructions(limit),
                messages=(Message(new_id(), "user", text, Source("system"), self._clock.now()),),
                max_tokens=min(limit, model.max_output),
            )
            try:
                async with asyncio.timeout(SUMMARY_SECONDS):
                    return await self._ask(turn, request)
            except TimeoutError as error:
                raise ProviderTimeout(f"no summary within {SUMMARY_SECONDS:g} s") from error

        return summarise


def _longest_answer(turn: TurnState, model: Model) -> int:
    """Tokens that one call may write, as far as this model goes; what it thinks comes on top of what it says."""
    return min(turn.max_tokens + model.room_to_think(turn.ctx.thinking), model.max_output)
