"""A note to the person that an answer ends where it reached its limit, and not where the model would have ended it.

Half a figure looks like a figure: without the line, `75,3` would be read as one.
"""

from collections.abc import Iterator
from typing import Final

from msgspec.structs import replace

from finclaw.kernel.envelope import Outbound
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.message import Message
from finclaw.kernel.scope import DeliveryContext, TurnResult
from finclaw.kernel.text import Language, language_of
from finclaw.tools.last_line import with_last_line

_LINES: Final[dict[Language, str]] = {
    "en": "(The answer was cut off here: it had reached its longest. Ask me to go on.)",
    "ko": "(답변이 길이 한도에 도달해 여기서 끊겼습니다. 계속해 달라고 하시면 이어서 답변하겠습니다.)",
}


class CutNote:
    name = "cut_note"

    def register(self, api: ExtensionApi) -> None:
        api.pipeline.register("delivery", self.say)

    async def say(self, ctx: DeliveryContext) -> Outbound:
        outbound = await ctx.next()
        if ctx.turn is None or outbound.kind != "reply" or not _is_cut(ctx.turn):
            return outbound
        return replace(outbound, text=with_last_line(outbound.text, _LINES[language_of(ctx.inbound.text)]))


def _is_cut(turn: TurnResult) -> bool:
    answer = next(_answers(turn), None)
    return answer is not None and answer.metadata.get("stop") == "max_tokens" and not answer.tool_calls


def _answers(turn: TurnResult) -> Iterator[Message]:
    """Those of the model, the last one first."""
    return (each for each in reversed(turn.messages) if each.source.kind == "assistant")
