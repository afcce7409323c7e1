"""A note to the person that another model than the chosen one has answered: one line, when that begins or changes.

Nothing is remembered here. Each answer says who gave it, and instead of whom; those of the conversation so far tell
whether it was said before.
"""

from collections.abc import Iterable, Iterator
from itertools import takewhile
from typing import Final, NamedTuple

from msgspec.structs import replace

from finclaw.builtins.delegate import CHANNEL as DELEGATED
from finclaw.kernel.envelope import Outbound
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.message import Message
from finclaw.kernel.scope import DeliveryContext, TurnContext, TurnResult
from finclaw.kernel.text import Language, language_of
from finclaw.tools.last_line import with_last_line

KEY: Final = "fallback_note"
"""Under which a turn's result carries the line."""

_LINES: Final[dict[Language, str]] = {
    "en": "({chosen} was not available just now; {instead} answered instead.)",
    "ko": "(지금은 {chosen} 모델을 쓸 수 없어 {instead} 모델이 대신 답했습니다.)",
}


class Fallback(NamedTuple):
    chosen: str
    instead: str

    def describe(self, language: Language) -> str:
        """Without the providers, unless they are all that differs."""
        chosen, instead = self.chosen.partition("/")[2], self.instead.partition("/")[2]
        if chosen == instead:
            chosen, instead = self
        return _LINES[language].format(chosen=chosen, instead=instead)


class FallbackNote:
    name = KEY

    def register(self, api: ExtensionApi) -> None:
        api.pipeline.register("turn", self.look)
        api.pipeline.register("delivery", self.say)

    async def look(self, ctx: TurnContext) -> TurnResult:
        result = await ctx.next()
        fallback = _news(ctx)
        if fallback is None or ctx.context.inbound.channel == DELEGATED:  # there it is a model that reads
            return result
        line = fallback.describe(language_of(ctx.context.inbound.text))
        return replace(result, metadata={**result.metadata, KEY: line})

    async def say(self, ctx: DeliveryContext) -> Outbound:
        outbound = await ctx.next()
        line = "" if ctx.turn is None else ctx.turn.metadata.get(KEY, "")
        if not line or outbound.kind != "reply":
            return outbound
        return replace(outbound, text=with_last_line(outbound.text, line))


def _news(ctx: TurnContext) -> Fallback | None:
    """Who gave this turn's answer in whose place, unless the person knows."""
    backwards = reversed(ctx.conversation.next_messages)
    own = list(takewhile(lambda each: each.id != ctx.input.id, backwards))
    answer = next(_answers(own), None)
    fallback = None if answer is None else _fallback_of(answer)
    return None if fallback is None or _was_said(fallback, _answers(backwards)) else fallback


def _was_said(fallback: Fallback, before: Iterable[Message]) -> bool:
    """Since it began: an answer by anybody else lies before that. A turn that failed or kept silent said nothing."""
    lines = [fallback.describe(language) for language in _LINES]
    since = takewhile(lambda answer: _fallback_of(answer) == fallback, before)
    return any(line in answer.text for answer in since for line in lines)


def _answers(messages: Iterable[Message]) -> Iterator[Message]:
    """Those of a model."""
    return (each for each in messages if each.source.kind == "assistant")


def _fallback_of(answer: Message) -> Fallback | None:
    chosen, instead = answer.metadata.get("instead_of"), answer.metadata.get("model")
    return Fallback(str(chosen), str(instead)) if chosen and instead else None
