"""A compactor with a summary writer of its own, whose every result is checked."""

from collections.abc import Sequence
from typing import Any

from tests.agent.talk import (
    AT,
    count,
    count_text,
    judge,
)

from finclaw.agent.window.compaction.compact import Compactor
from finclaw.agent.window.compaction.options import Compaction, Options, is_summary
from finclaw.agent.window.compaction.summary import Summaries
from finclaw.errors import FinclawError
from finclaw.kernel.message import Message
from finclaw.transcript.conversation import Conversation


class Writer:
    """A summariser that follows its script, and then goes on with its last line."""

    def __init__(self, *script: str | FinclawError) -> None:
        self._script = list(script or ("They talked about AAPL.",))
        self.asked: list[tuple[Sequence[Message], int]] = []

    async def __call__(self, messages: Sequence[Message], limit: int) -> str:
        self.asked.append((messages, limit))
        line = self._script.pop(0) if len(self._script) > 1 else self._script[0]
        if isinstance(line, FinclawError):
            raise line
        return line


class Desk:
    def __init__(self, writer: Writer | None = None, *, window: int = 200_000) -> None:
        self.writer = writer or Writer()
        self.summaries = Summaries(self.writer, count, count_text, window)
        self.fallbacks: list[tuple[str, str]] = []
        self._compactor = Compactor(self.summaries, count, count_text, lambda: AT)

    async def compact(
        self, messages: Sequence[Message], target: int, *, whole: bool = True, **options: Any
    ) -> Compaction:
        done = await self._compactor(
            messages,
            Options(target_tokens=target, **options),
            lambda before, after: self.fallbacks.append((before, after)),
        )
        check(messages, done, whole=whole)
        return done


def size(messages: Sequence[Message]) -> int:
    return sum(map(count, messages))


def check(before: Sequence[Message], done: Compaction, *, whole: bool) -> None:
    """What holds for every compaction: the events make exactly the messages, and every API takes them."""
    conversation = Conversation(before)
    for event in done.events:
        conversation.push(event)
    assert len(conversation.events) == len(done.events), "no event missed its target"
    assert tuple(conversation.next_messages) == tuple(done.messages)
    assert (done.before_tokens, done.after_tokens) == (size(before), size(done.messages))
    assert done.removed_count == len(before) - len(done.messages)
    if whole:
        judge(done.messages)


def summary_of(done: Compaction) -> Message:
    (summary,) = (message for message in done.messages if is_summary(message))
    return summary
