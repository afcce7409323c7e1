"""A passing note for the model: under a key of its own, and never between a call and its result."""

from collections.abc import Callable, Sequence
from typing import Final

from finclaw.ids import new_id
from finclaw.kernel.context import Context
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.message import Append, Message, Source, Text
from finclaw.kernel.scope import ConversationView, TurnContext, TurnResult
from finclaw.taint.sources import SOURCES, context_sources


def put_note(turn: TurnContext, key: str, text: str, sources: Sequence[str] = ()) -> None:
    """What the model reads under this key from now on: behind everything else, or where it stood before.

    `sources` says whose words it holds, where they are strangers'.
    """
    former = note_under(turn.conversation, key)
    if former is not None and former.text == text:
        return  # nothing new: a turn that resumes must not fill its log with the same words
    if former is None and waits_for_results(turn.conversation):
        return  # a crash left calls open, and nothing may stand between them and their results
    turn.emit_message_event(Append(_note(turn, key, text, sources)))


def note_under(conversation: ConversationView, key: str) -> Message | None:
    """Notes came with this turn, so they stand behind all that was there before: a long history is not walked."""
    appended = sum(1 for event in conversation.events if isinstance(event, Append))
    own = conversation.next_messages[-appended:] if appended else ()
    return next((each for each in own if each.passing == key), None)


def waits_for_results(conversation: ConversationView) -> bool:
    """Whether the last thing said is a call."""
    spoken = (each for each in reversed(conversation.next_messages) if not each.passing)
    final = next(spoken, None)
    return final is not None and bool(final.tool_calls)


def _note(turn: TurnContext, key: str, text: str, sources: Sequence[str]) -> Message:
    """Not in the user's name: whoever looks for what the person said must not find this."""
    return Message(
        id=new_id(),
        role="system",
        blocks=(Text(text),),
        source=Source("extension", name=key),
        created_at=turn.context.accepted_at,
        metadata={SOURCES: list(sources)} if sources else {},
        passing=key,
    )


KEY: Final = "moment"


class Moment:
    name = "moment"

    def __init__(self, written: Callable[[Context], str]) -> None:
        self._written = written

    def register(self, api: ExtensionApi) -> None:
        api.pipeline.register("turn", self.tell)

    async def tell(self, ctx: TurnContext) -> TurnResult:
        if note := self._written(ctx.context):
            put_note(ctx, KEY, note, context_sources(ctx.context.provided))
        return await ctx.next()
