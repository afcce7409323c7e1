"""Room in the model's window: a glance while there is plenty of it, a guard over every request when there is not."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from finclaw.agent.compaction import Compactor, Summaries
from finclaw.agent.compaction.prompt import instructions, transcript
from finclaw.agent.context_guard import ContextGuard
from finclaw.agent.gauge import Gauges
from finclaw.agent.paid import from_metadata
from finclaw.agent.running import RunningTurn
from finclaw.agent.tokens import AN_IMAGE, Estimator
from finclaw.agent.window import Capacity, Thresholds
from finclaw.errors import ProviderTimeout
from finclaw.kernel.chunk import Model, ModelRequest, ToolSpec, Usage, Vocabulary
from finclaw.kernel.envelope import new_id
from finclaw.kernel.message import Image, Message, Source, Text, Thinking, ToolCall, ToolResult
from finclaw.kernel.port import Clock

LOOK_CLOSER: Final = 0.6
"""Of the window. Below it there is nothing to warn of, and nobody need count."""
NEARLY_FULL: Final = 0.8
"""Of what goes in. Our estimates are never under by more than a fifth, so from here on it may have been too much."""
SUMMARY_SECONDS: Final = 180.0

AskQuietly = Callable[[RunningTurn, ModelRequest], Awaitable[str]]
"""A question of our own: its answer is no part of the conversation, and is paid for like any."""


class Rooms:
    def __init__(self, clock: Clock, ask: AskQuietly) -> None:
        self._clock = clock
        self._ask = ask
        self._estimators: dict[Vocabulary, Estimator] = {}
        self._gauges: dict[Vocabulary, Gauges] = {}

    async def fit(self, turn: RunningTurn, tools: tuple[ToolSpec, ...]) -> int:
        """Before each model call: the longest answer that may be asked for. Raises ContextTooLong."""
        if turn.guard is None and not self._may_be_tight(turn, tools):
            return turn.longest_answer
        return await self._guard(turn).fit(turn.model, turn.longest_answer, turn.system, tools)

    def measured(self, turn: RunningTurn, usage: Usage, answer: Message) -> None:
        """After each answer, before it is in the conversation."""
        if turn.guard is not None:
            turn.guard.measured(usage, answer)

    async def overflowed(self, turn: RunningTurn, model: Model) -> bool:
        """The model that was asked refused the request as too long. False: nothing more can be taken away."""
        return await self._guard(turn).overflowed(model, turn.longest_answer)

    def may_have_overflowed(self, turn: RunningTurn, tools: Sequence[ToolSpec], model: Model) -> bool:
        """Many servers have only words for it, and words are not read: a refusal of what by our own count nearly
        fills the window is taken for this one.
        """
        messages = sum(map(self._estimator(model).tokens_of, turn.conversation.next_messages))
        capacity = Capacity.of(model, turn.longest_answer, Thresholds())
        return capacity.ratio(self._head(turn, tools) + messages) >= NEARLY_FULL

    # ── a glance ────────────────────────────────────────────────────────────────────────────────────────────

    def _may_be_tight(self, turn: RunningTurn, tools: Sequence[ToolSpec]) -> bool:
        """By what the model itself measured last, and what came since at a token a character, which is too much
        for nearly everything: no walk over the history, and nothing to remember.
        """
        limit = min(turn.model.window * LOOK_CLOSER, turn.model.window - turn.longest_answer)
        since = 0
        for message in reversed(turn.conversation.next_messages):
            if measured := _measured(message):
                return measured + since >= limit
            since += _characters(message)
            if since >= limit:
                return True
        return self._head(turn, tools) + since >= limit

    def _head(self, turn: RunningTurn, tools: Sequence[ToolSpec]) -> int:
        estimator = self._estimator(turn.model)
        return estimator.tokens_in(turn.system) + sum(map(estimator.tokens_of_tool, tools))

    def _estimator(self, model: Model) -> Estimator:
        return self._estimators.setdefault(model.vocabulary, Estimator(model.vocabulary))

    # ── the guard ───────────────────────────────────────────────────────────────────────────────────────────

    def _guard(self, turn: RunningTurn) -> ContextGuard:
        if turn.guard is None:
            estimator = self._estimator(turn.model)
            count, count_text = estimator.tokens_of, estimator.tokens_in
            gauges = self._gauges.setdefault(turn.model.vocabulary, Gauges(count, count_text))
            summaries = Summaries(self._summariser(turn), count, count_text, turn.model.window)
            turn.guard = ContextGuard(
                turn.conversation,
                turn.log.push,
                input_id=turn.input.id,
                gauge=gauges.of(turn.ids["session"]),
                compact=Compactor(summaries, count, count_text, self._clock.now),
                emit=turn.emit,
                ids=turn.ids,
            )
        return turn.guard

    def _summariser(self, turn: RunningTurn) -> Callable[[Sequence[Message], int], Awaitable[str]]:
        async def summarise(messages: Sequence[Message], limit: int) -> str:
            text = (Text(transcript(messages)),)
            request = ModelRequest(
                model=turn.model,
                system=instructions(limit),
                messages=(Message(new_id(), "user", text, Source("system"), self._clock.now()),),
                max_tokens=min(limit, turn.model.max_output),
            )
            try:
                async with asyncio.timeout(SUMMARY_SECONDS):
                    return await self._ask(turn, request)
            except TimeoutError as error:
                raise ProviderTimeout(f"no summary within {SUMMARY_SECONDS:g} s") from error

        return summarise


def _characters(message: Message) -> int:
    total = 0
    for block in message.blocks:
        match block:
            case Text(text):
                total += len(text)
            case ToolResult():
                total += len(block.content)
            case ToolCall() | Thinking():
                total += len(str(block))
            case Image():
                total += AN_IMAGE
    return total


def _measured(answer: Message) -> int:
    """The size of the conversation up to and with this answer, by the model's own count; 0 where it gave none."""
    if answer.source.kind != "assistant":
        return 0
    usage = from_metadata(answer).usage
    return usage.input + usage.cache_read + usage.cache_write + usage.output
