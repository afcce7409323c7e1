"""The log of one turn: on disk before anything acts upon it, so that after a crash the turn resumes from it."""

from collections.abc import Sequence

from finclaw.kernel.message import Append, Message, MessageEvent, ToolCall, ToolResult, ToolStarted, TurnEvent
from finclaw.kernel.port import ConversationStore
from finclaw.kernel.record import Claim
from finclaw.sessions.conversation import Conversation


class TurnLog:
    def __init__(self, store: ConversationStore, claim: Claim, conversation: Conversation) -> None:
        self._store = store
        self._claim = claim
        self._logged = len(claim.events)
        self._offset = len(conversation.events)
        self._conversation = conversation
        self.heard: dict[str, ToolResult] = {}
        """Results by call that are not in the log yet: a turn that is cut off still knows what has happened."""

    @property
    def claim(self) -> Claim:
        return self._claim

    @property
    def conversation(self) -> Conversation:
        return self._conversation

    def push(self, event: TurnEvent) -> None:
        """Count an event in now; it reaches the disk with the next commit, at the latest with Finish."""
        self._conversation.push(event)

    def push_message_event(self, event: MessageEvent) -> None:
        self._conversation.push(event)

    @property
    def unlogged(self) -> tuple[TurnEvent, ...]:
        return tuple(self._conversation.events[self._offset :])

    async def commit(self) -> None:
        events = self.unlogged
        if not events:
            return

        def committed() -> None:  # counted by the commit itself: a caller cut off meanwhile must not log them twice
            self._logged += len(events)
            self._offset += len(events)

        await self._store.record(self._claim, self._logged, events, committed)

    # ── what the log tells ──────────────────────────────────────────────────────────────────────────────────

    @property
    def messages(self) -> Sequence[Message]:
        """Messages this turn has added."""
        return [event.message for event in self._conversation.events if isinstance(event, Append)]

    @property
    def answers(self) -> Sequence[Message]:
        """What the model has said in this turn, one message a step; not what layers or the gateway put beside it."""
        return [message for message in self.messages if message.source.kind == "assistant"]

    @property
    def results(self) -> tuple[ToolResult, ...]:
        return tuple(result for message in self.messages for result in message.tool_results)

    @property
    def call_ids(self) -> frozenset[str]:
        return frozenset(call.id for message in self.messages for call in message.tool_calls)

    @property
    def begun(self) -> frozenset[str]:
        """Transactional calls that have begun. None of them may begin again."""
        events = self._conversation.events
        return frozenset(each.call_id for each in events if isinstance(each, ToolStarted) and each.transactional)

    def unanswered(self) -> tuple[Message, tuple[ToolCall, ...]] | None:
        """The last assistant message and those of its calls that have no result: what a crash or a stop left open."""
        asked = next((each for each in reversed(self.messages) if each.role == "assistant"), None)
        if asked is None:
            return None
        answered = {result.call_id for result in self.results}
        open_calls = tuple(call for call in asked.tool_calls if call.id not in answered)
        return (asked, open_calls) if open_calls else None
