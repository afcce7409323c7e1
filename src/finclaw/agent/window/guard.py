"""A guard that keeps the requests of a turn within the context window: measures, reports, compacts in time."""

from collections.abc import Callable, Sequence
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from finclaw.agent.window.capacity import Capacity, Thresholds, WindowState
from finclaw.agent.window.compaction import Compactor, Options, Strategy
from finclaw.agent.window.compaction.options import CompactionSettings, is_summary
from finclaw.agent.window.size import ContextSize
from finclaw.errors import ContextTooLong
from finclaw.kernel.chunk import Model, ToolSpec, Usage
from finclaw.kernel.event import CompactionFellBack, ContextCompacted, Emit
from finclaw.kernel.message import Message, MessageEvent, Replace
from finclaw.kernel.scope import ConversationView, Ids
from finclaw.taint.sources import remember_taint, sources_read

MOST_SUMMARIES: Final = 2
"""In one turn: after that, only what needs no model."""

_LEAST_TARGET: Final = 256
_SHARE: Final = 0.6


class ContextPolicy(Struct, kw_only=True):
    """The policy of a guard, which a turn's layers may set."""

    thresholds: Thresholds = Thresholds()
    strategy: Strategy = "hybrid"
    recent: int = 6

    @staticmethod
    def of(settings: CompactionSettings) -> "ContextPolicy":
        """The policy with which a turn begins. Warnings come between the target and the start, in the usual steps."""
        step = (settings.start - settings.target) / 7
        warn, notify = round(settings.target + 4 * step, 4), round(settings.start - step, 4)  # people are told these
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
        size.begin(conversation)

    async def fit(self, model: Model, max_tokens: int, system: str, tools: Sequence[ToolSpec]) -> int:
        """Before each model call: compacts if need be. Gives the longest answer that may be asked for.

        Raises ContextTooLong when what must be sent is too much for this model.
        """
        capacity = Capacity.of(model, max_tokens, self.policy.thresholds)
        self._size.use(model)
        self._size.head(system, tools)
        self._size.follow(self._conversation)
        state = self._tell(capacity)
        if state.compaction_needed:
            self._must_fit(model, capacity, self._least())  # else everything would be forgotten for nothing
            await self._shrink(capacity)
            state = self._tell(capacity)
        self._must_fit(model, capacity, state.current_tokens)
        return capacity.answer_room(state.current_tokens)

    async def shrink_after_refusal(self, model: Model, max_tokens: int) -> bool:
        """The model refused the request as too long. False: nothing more can be taken away, so do not try again."""
        capacity = Capacity.of(model, max_tokens, self.policy.thresholds)
        self._size.use(model)
        self._size.follow(self._conversation)
        self._size.note_overflow(capacity.limit)
        self._tell(capacity)
        gained = await self._shrink(capacity)
        self._tell(capacity)
        return gained

    def note_usage(self, usage: Usage, answer: Message) -> None:
        """After each answer, before it is in the conversation."""
        self._size.note_usage(usage, answer)

    def state(self, model: Model, max_tokens: int) -> WindowState:
        capacity = Capacity.of(model, max_tokens, self.policy.thresholds)
        return capacity.state(self._size.tokens, self._size.breakdown)

    def _least(self) -> int:
        """What is sent however much is taken away: the head, and the person's current input."""
        messages = reversed(self._conversation.next_messages)
        return self._size.tokens_with(next((each for each in messages if each.id == self._input_id), None))

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
        """Whether anything was gained."""
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
        """In the counter's tokens, and for the messages alone.

        Where system prompt and tools fill much of the window, the messages get a share of what is left: a target that
        leaves nothing would have the model forget what it has just read.
        """
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
