"""A note to the person that their conversation was compacted: one line, once a session.

Whoever is not told takes what the assistant has forgotten for a mistake of it. The summary itself carries the mark that
the person knows, so mark and conversation are kept and reset together, and a turn that is tried again tells it again.
"""

from typing import Final

from msgspec.structs import replace

from finclaw.builtins.delegate import CHANNEL as DELEGATED
from finclaw.kernel.envelope import Outbound
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.message import SUMMARY, Message, Patch, Replace
from finclaw.kernel.scope import ConversationView, DeliveryContext, TurnContext, TurnResult
from finclaw.kernel.text import Language, language_of
from finclaw.tools.last_line import with_last_line

KEY: Final = "compaction_note"
"""Under which a turn's result carries the line, and a summary the mark: whether the person knew before that turn."""

_LINES: Final[dict[Language, str]] = {
    "en": "(This conversation has grown long, so I now know its earlier part only in summary. "
    "If I miss something that matters, please say it again.)",
    "ko": "(대화가 길어져 앞부분은 이제 요약된 내용만 알고 있습니다. 놓친 내용이 있으면 다시 말씀해 주세요.)",
}


class CompactionNote:
    name = KEY

    def register(self, api: ExtensionApi) -> None:
        api.pipeline.register("turn", self.look)
        api.pipeline.register("delivery", self.say)

    async def look(self, ctx: TurnContext) -> TurnResult:
        """A turn that fails or keeps silent tells nothing, and leaves it to the next compaction."""
        result = await ctx.next()
        summary = _new_summary(ctx.conversation)
        if summary is None or ctx.context.inbound.channel == DELEGATED:  # there it is a model that reads
            return result
        line = _LINES[language_of(ctx.context.inbound.text)]
        before = (each for each in ctx.conversation.base_messages if SUMMARY in each.metadata)
        was_told = bool(summary.metadata.get(KEY, any(KEY in each.metadata for each in before)))
        if was_told or _speaks(result):
            ctx.emit_message_event(Patch(summary.id, {KEY: was_told}))
        return result if was_told else replace(result, metadata={**result.metadata, KEY: line})

    async def say(self, ctx: DeliveryContext) -> Outbound:
        outbound = await ctx.next()
        line = "" if ctx.turn is None else ctx.turn.metadata.get(KEY, "")
        if not line or outbound.kind != "reply":
            return outbound
        return replace(outbound, text=with_last_line(outbound.text, line))


def _new_summary(conversation: ConversationView) -> Message | None:
    """The last one that this turn has made. Its events tell; the history is not walked."""
    made = (event.message for event in reversed(conversation.events) if isinstance(event, Replace))
    return next((message for message in made if SUMMARY in message.metadata), None)


def _speaks(result: TurnResult) -> bool:
    """Whether the line finds an answer to stand behind: cards and silence take none."""
    return result.status in ("completed", "max_steps") and with_last_line(result.text, KEY) != result.text
