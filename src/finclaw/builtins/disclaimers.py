"""The disclaimer: one line behind an answer that says that it is no investment advice.

Code decides whether there is one and which: by the compliance level of the person, the language of the answer, and
what it holds (a market figure, an opinion, neither). A model can ask for it, and cannot do without it.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal

from msgspec.structs import replace

from finclaw.builtins.delegate import CHANNEL as DELEGATED
from finclaw.kernel.envelope import Inbound, Outbound
from finclaw.kernel.extension import ExtensionApi
from finclaw.kernel.fact import Fact
from finclaw.kernel.scope import DeliveryContext
from finclaw.text import Language, language_of
from finclaw.tools.control_tokens import with_last_line

ContentClass = Literal["figure", "opinion", "neither"]
TOKEN: Final = "ATTACH_DISCLAIMER"

LINES: Final[Mapping[str, Mapping[ContentClass, Mapping[Language, str]]]] = {
    "retail": {
        "figure": {
            "en": "(For information only, not investment advice. The decision is yours.)",
            "ko": "(참고용 정보이며 투자 조언이 아닙니다. 투자 판단은 본인의 몫입니다.)",
        },
        "opinion": {
            "en": "(Not investment advice. The decision is yours, and you can lose what you invest.)",
            "ko": "(투자 조언이 아닙니다. 투자 판단은 본인의 몫이며, 원금을 잃을 수 있습니다.)",
        },
    },
    "professional": {
        "figure": {"en": "(Not investment advice.)", "ko": "(투자 조언이 아닙니다.)"},
        "opinion": {
            "en": "(Not investment advice. Whether it suits you or your client is yours to judge.)",
            "ko": "(투자 조언이 아닙니다. 본인이나 고객에게 적합한지는 직접 판단하시기 바랍니다.)",
        },
    },
    "institutional": {
        "opinion": {
            "en": "(Not investment advice. Your mandate and your limits decide.)",
            "ko": "(투자 조언이 아닙니다. 운용 지침과 한도에 따라 판단하시기 바랍니다.)",
        },
    },
}
"""By compliance level, content and language. Whoever acts for an institution reads prices all day, without a line."""

_ALL_LINES: Final = tuple(line for kinds in LINES.values() for texts in kinds.values() for line in texts.values())


class Disclaimers:
    name = "disclaimers"

    def __init__(self, level_of: Callable[[Inbound], str]) -> None:
        self._level_of = level_of

    def register(self, api: ExtensionApi) -> None:
        # Further out than the label of made-up prices, so that nothing stands behind it and no layer takes it away.
        api.pipeline.register("delivery", self.attach, priority=-110)

    async def attach(self, ctx: DeliveryContext) -> Outbound:
        outbound = await ctx.next()
        if outbound.kind != "reply" or ctx.kind == "block" or ctx.inbound.channel == DELEGATED:
            return outbound  # a block is followed by the rest; of a helper's answer a model is the reader
        content = _classify(ctx, outbound)
        if content == "neither":
            return outbound
        answer = outbound.text
        if ctx.turn:
            answer = f"{answer}\n{ctx.turn.text}"
        texts = LINES[self._level_of(ctx.inbound)].get(content)
        if texts is None or any(line in answer for line in _ALL_LINES):  # a model may repeat what it has read before
            return outbound
        if not any(map(str.isalpha, answer)):  # figures only
            answer = ctx.inbound.text
        text = with_last_line(outbound.text, texts[language_of(answer)], begun=ctx.is_sent_in_blocks)
        if text == outbound.text:
            return outbound
        return replace(outbound, text=text)


# ── what an answer holds ────────────────────────────────────────────────────────────────────────────────────


def _classify(ctx: DeliveryContext, outbound: Outbound) -> ContentClass:
    """An opinion outweighs a figure. What the model asks a disclaimer for counts as an opinion."""
    turn = ctx.turn
    if states_opinion(outbound.text):
        return "opinion"
    if turn is not None:
        if TOKEN in turn.tokens or (turn.text not in outbound.text and states_opinion(turn.text)):
            return "opinion"
        if _has_market_figure(turn.facts):
            return "figure"
    if _has_market_figure(outbound.facts):
        return "figure"
    return "neither"


_NO_MARKET: Final = frozenset({"calculator", "clock", "user"})


def _has_market_figure(facts: Iterable[Fact]) -> bool:
    """Whether one is a price, a rate or a move of one; opening hours and arithmetic are none."""
    return any(
        (fact.currency is not None or fact.unit in ("points", "%")) and fact.source not in _NO_MARKET for fact in facts
    )


_STEMS: Final = (
    *("buy", "sell", "hold", "invest", "valued", "weight"),
    *("매수", "매도", "보유", "투자", "평가", "세요", "사는", "파는", "사시", "파시"),
)
"""One of these is in every opinion below. Most answers have none, and need no more than a look for them."""
_ACT: Final = r"(?:buy|sell|hold|invest|buying|selling|holding|investing)\b"
_OPINION: Final = re.compile(
    rf"""
      \b(?:should|would|recommend|suggest|advise|consider|better\ to|time\ to|wise\ to|idea\ to|worth|prefer\ to)
        \ (?:[\w'-]{{1,20}}\ ){{0,4}}{_ACT}
    | \bi'd\ (?:[\w'-]{{1,20}}\ ){{0,2}}{_ACT}
    | \b(?:a|an|strong|clear|still)\ (?:buy|sell|hold)\b(?!-)
    | \b(?:buy|sell|hold)\ (?:rating|signal|recommendation|now\b|the\ dip)
    | (?:^|\n|[.!?:]\s)[-*\s]{{0,3}}(?:buy|sell|hold)\ (?!orders?\b|side\b|volume\b)
    | \b(?:over|under)(?:valued|weight)\b
    | (?:매수|매도|보유|투자)(?:를|을|하는|하시는|하기|하기에|하실)?\ ?(?:게|것이|것을|걸|편이)?\ ?
        (?:추천|권해|권합|권장|좋|낫|나은|바람직|고려|적기|시점|타이밍|유리|의견
          |할\ ?만|하세요|하십시오|하시길|해\ ?보세요)
    | (?<![가-힣])(?:사|파|사는|파는|사시는|파시는)
        (?:세요(?!\ ?\?)|십시오|\ (?:게|것이|편이|걸)\ (?:좋|낫|나|유리|추천|권))
    | [저고]평가
    """,
    re.VERBOSE,
)


def states_opinion(text: str) -> bool:
    """Whether a text speaks of buying, selling or holding as something to do, for or against."""
    words = text.lower()
    return any(map(words.__contains__, _STEMS)) and _OPINION.search(words) is not None
