"""The model's context window: a cheap check while there is room, and a guard that compacts when there is not."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import lru_cache, partial
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from finclaw.agent.budget.call_ledger import measured_size
from finclaw.agent.turn_state.state import TurnState
from finclaw.agent.window.compaction.compact import Compactor
from finclaw.agent.window.compaction.options import CompactionSettings, Options, Strategy, is_summary
from finclaw.agent.window.compaction.summary import INSTRUCTIONS, Summaries, transcript
from finclaw.agent.window.size import Capacity, ContextSize, Thresholds, WindowState
from finclaw.agent.window.tokens import Estimator, characters_of
from finclaw.errors import ContextTooLong, ProviderTimeout
from finclaw.ids import new_id
from finclaw.kernel.chunk import Model, ModelRequest, ToolSpec, Usage, Vocabulary
from finclaw.kernel.event import CompactionFellBack, ContextCompacted, Emit
from finclaw.kernel.message import Message, MessageEvent, Replace, Source, Text
from finclaw.kernel.port import Clock
from finclaw.kernel.scope import ConversationView, Ids
from finclaw.taint.sources import remember_taint, sources_read

LOOK_CLOSER: Final = 0.6  # of the window; below it nobody need count
NEARLY_FULL: Final = 0.8  # of what goes in; our estimates may be a fifth too low
SUMMARY_SECONDS: Final = 180.0
MOST_SESSIONS: Final = 1_000
MakeSideCall = Callable[[TurnState, ModelRequest], Awaitable[str]]
"""A question of our own: its answer is no part of the conversation, and is paid for like any."""


class ContextWindow:
    """`estimator` gives that of a model, the same with which its calls are paid for."""

    def __init__(
        self, clock: Clock, ask: MakeSideCall, estimator: Callable[[Model], Estimator], compaction: CompactionSettings
    ) -> None:
        self._clock = clock
        self._compaction = compaction
        self._look_closer = min(LOOK_CLOSER, compaction.start * LOOK_CLOSER / 0.85)
        self._ask = ask
        self._estimator = estimator
        self._sizes: dict[Vocabulary, Callable[[str], ContextSize]] = {}
        """By vocabulary: a function that gives the size of a session, for the sessions that were active last."""

    async def fit(self, turn: TurnState, tools: tuple[ToolSpec, ...], model: Model) -> int:
        """The longest answer that the model may be asked for. Raises ContextTooLong when no answer fits."""
        longest = model.longest_answer(turn.max_tokens, turn.ctx.thinking)
        is_guarded = turn.guard is not None and model == turn.ctx.model
        if not is_guarded and not self._may_be_tight(turn, tools, model):
            return longest
        return await self._guard(turn, model).fit(model, longest, turn.ctx.system, tools)

    async def shrink_after_refusal(self, turn: TurnState, model: Model) -> bool:
        """The model refused the request as too long. False: nothing more can be taken away."""
        return await self._guard(turn, model).shrink_after_refusal(
            model, model.longest_answer(turn.max_tokens, turn.ctx.thinking)
        )

    def may_have_overflowed(self, turn: TurnState, tools: tuple[ToolSpec, ...], model: Model) -> bool:
        """Whether a refusal of unknown reason is an overflow: by our count the window is nearly full."""
        messages = sum(map(self._estimator(model).tokens_of, turn.ctx.conversation.next_messages))
        capacity = Capacity.of(model, model.longest_answer(turn.max_tokens, turn.ctx.thinking), Thresholds())
        head = self._estimator(model).tokens_of_head(turn.ctx.system, tools)
        return capacity.ratio(head + messages) >= NEARLY_FULL

    def _may_be_tight(self, turn: TurnState, tools: tuple[ToolSpec, ...], model: Model) -> bool:
        """Uses the last measured size and a token a character for what came since, so it never walks the history."""
        limit = min(
            model.window * self._look_closer, model.window - model.longest_answer(turn.max_tokens, turn.ctx.thinking)
        )
        since = 0
        for message in reversed(turn.ctx.conversation.next_messages):
            if measured := measured_size(message):
                return measured + since >= limit
            since += characters_of(message)
            if since >= limit:
                return True
        return self._estimator(model).tokens_of_head(turn.ctx.system, tools) + since >= limit

    def _guard(self, turn: TurnState, model: Model) -> "ContextGuard":
        """A fallback model gets its own guard: it counts in other tokens, and summaries must fit its window."""
        if model != turn.ctx.model:
            return self._new_guard(turn, model)
        if turn.guard is None:
            turn.guard = self._new_guard(turn, model)
        return turn.guard

    def _new_guard(self, turn: TurnState, model: Model) -> "ContextGuard":
        estimator = self._estimator(model)
        count = estimator.tokens_of
        count_text = estimator.tokens_in
        if model.vocabulary not in self._sizes:

            def new_size(_session: str) -> ContextSize:
                return ContextSize(count, count_text, lambda model: self._estimator(model).correction)

            self._sizes[model.vocabulary] = lru_cache(maxsize=MOST_SESSIONS)(new_size)
        summaries = Summaries(partial(self._summarise, turn, model), count, count_text, model.window)
        return ContextGuard(
            turn.ctx.conversation,
            turn.log.push,
            input_id=turn.ctx.input.id,
            size=self._sizes[model.vocabulary](turn.ctx.ids["session"]),
            compact=Compactor(summaries, count, count_text, self._clock.now),
            emit=turn.ctx.emit,
            ids=turn.ctx.ids,
            policy=ContextPolicy.of(self._compaction) if turn.guard is None else turn.guard.policy,
        )

    async def _summarise(self, turn: TurnState, model: Model, messages: Sequence[Message], limit: int) -> str:
        text = (Text(transcript(messages)),)
        request = ModelRequest(
            model=model,
            system=INSTRUCTIONS.format(limit=limit),
            messages=(Message(new_id(), "user", text, Source("system"), self._clock.now()),),
            max_tokens=min(limit, model.max_output),
        )
        try:
            async with asyncio.timeout(SUMMARY_SECONDS):
                return await self._ask(turn, request)
        except TimeoutError as error:
            raise ProviderTimeout(f"no summary within {SUMMARY_SECONDS:g} s") from error


MOST_SUMMARIES: Final = 2  # in one turn: after that, only what needs no model

_LEAST_TARGET: Final = 256
_SHARE: Final = 0.6


class ContextPolicy(Struct, kw_only=True):
    thresholds: Thresholds = Thresholds()
    strategy: Strategy = "hybrid"
    recent: int = 6

    @staticmethod
    def of(settings: CompactionSettings) -> "ContextPolicy":
        """Warnings come between the target and the start, in the usual steps."""
        step = (settings.start - settings.target) / 7
        warn = round(settings.target + 4 * step, 4)  # people are told these
        notify = round(settings.start - step, 4)
        thresholds = Thresholds(target=settings.target, warn=warn, notify=notify, compact=settings.start)
        return ContextPolicy(thresholds=thresholds, strategy=settings.strategy, recent=settings.recent)


class ContextGuard:
    """The guard of one turn. `push` puts an event into the turn's log; `input_id` is the person's current input."""

    def __init__(
        self,
        conversation: ConversationView,
        push: Callable[[MessageEvent], None],
        *,
        input_id: str,
        size: ContextSize,
        compact: Compactor,
        emit: Emit,
        ids: Ids,
        policy: ContextPolicy | None = None,
    ) -> None:
        self._conversation = conversation
        self._push = push
        self._input_id = input_id
        self._size = size
        self._compact = compact
        self._emit = emit
        self._ids = ids
        self.policy = policy or ContextPolicy()
        self._summaries = sum(
            1 for each in conversation.events if isinstance(each, Replace) and is_summary(each.message)
        )
        size.follow(conversation)

    async def fit(self, model: Model, max_tokens: int, system: str, tools: Sequence[ToolSpec]) -> int:
        """Compact if need be, and return the longest answer that may be asked for. Raises ContextTooLong."""
        capacity = Capacity.of(model, max_tokens, self.policy.thresholds)
        self._size.use(model)
        self._size.head(system, tools)
        self._size.follow(self._conversation)
        state = self._tell(capacity)
        if state.compaction_needed:
            messages = reversed(self._conversation.next_messages)
            own_input = next((each for each in messages if each.id == self._input_id), None)
            least = self._size.tokens_with(own_input)
            self._must_fit(model, capacity, least)  # else everything would be forgotten for nothing
            await self._shrink(capacity)
            state = self._tell(capacity)
        self._must_fit(model, capacity, state.current_tokens)
        return capacity.answer_room(state.current_tokens)

    async def shrink_after_refusal(self, model: Model, max_tokens: int) -> bool:
        capacity = Capacity.of(model, max_tokens, self.policy.thresholds)
        self._size.use(model)
        self._size.follow(self._conversation)
        self._size.note_overflow(capacity.limit)
        self._tell(capacity)
        gained = await self._shrink(capacity)
        self._tell(capacity)
        return gained

    def note_usage(self, usage: Usage, answer: Message) -> None:
        self._size.note_usage(usage, answer)

    @staticmethod
    def _must_fit(model: Model, capacity: Capacity, tokens: int) -> None:
        if capacity.status(tokens) == "exceeded":
            raise ContextTooLong(
                f"system prompt, tools and the last messages need {tokens:,} tokens, and {model.name} "
                f"takes {capacity.limit:,}; shorten them or choose a model with a larger window"
            )

    def _tell(self, capacity: Capacity) -> WindowState:
        state = capacity.state(self._size.tokens, self._size.breakdown)
        self._size.notifier.tell(state, capacity.table, self._emit, self._ids)
        return state

    async def _shrink(self, capacity: Capacity) -> bool:
        seen = self._conversation.next_messages
        options = self._options(capacity)
        done = await self._compact(seen, options, self._fell_back)
        self._summaries += done.summaries
        if self._conversation.next_messages is not seen:  # it went on meanwhile; what asks no model takes no while
            done = await self._compact(self._conversation.next_messages, replace(options, summaries=0), self._fell_back)
        before = sources_read(self._conversation.next_messages)
        for event in done.events:
            self._push(event)
        if (known := remember_taint(self._conversation, before)) is not None:
            self._push(known)
        if done.events:
            self._size.forget_measured()
            self._size.follow(self._conversation)
            sizes = {"before": done.before_tokens, "after": done.after_tokens}
            self._emit(ContextCompacted(strategy=done.strategy, fits=done.fits, **sizes, **self._ids))
        return done.after_tokens < done.before_tokens

    def _options(self, capacity: Capacity) -> Options:
        """In the counter's tokens. Beside a large head the messages get a share of what is left, not nothing."""
        head = self._size.breakdown.system + self._size.breakdown.tools
        target = self._size.as_counted(capacity.target) - head
        share = self._size.as_counted(capacity.at(capacity.table.compact)) - head
        return Options(
            target_tokens=max(_LEAST_TARGET, target, int(share * _SHARE)),
            strategy=self.policy.strategy,
            recent=self.policy.recent,
            input_id=self._input_id,
            summaries=max(0, MOST_SUMMARIES - self._summaries),
        )

    def _fell_back(self, before: str, after: str) -> None:
        self._emit(CompactionFellBack(from_strategy=before, to_strategy=after, **self._ids))
