"""The assistant reads facts: whatever figures a tool's text has, the answer is the one of its facts."""

import re

import pytest
from msgspec.structs import replace
from tests.demo.talk import Talk

from finclaw.kernel.message import ToolCall, ToolResult

_IDENTITY = ("symbol", "name", "name_ko", "exchange", "market", "zone", "period", "kind", "currency", "alerts", "side")
_OWN = ("expression",)
"""What the assistant itself has asked."""
_FIGURE = re.compile(rf"^(?!(?:{'|'.join((*_IDENTITY, *_OWN))}): )([^:\n]+: )(.*)$", re.MULTILINE)


class MisleadingTalk(Talk):
    """The tools' texts have other figures than their facts."""

    async def run(self, call: ToolCall) -> ToolResult:
        result = await super().run(call)
        shifted = str.maketrans("0123456789", "1234567890")
        content = _FIGURE.sub(lambda line: line[1] + line[2].translate(shifted), result.content)
        return replace(result, content=content) if result.status == "ok" else result


@pytest.mark.parametrize(
    "question",
    [
        "What is AAPL trading at?",
        "삼성전자 거래량 알려줘",
        "애플 주가 원화로",
        "10 shares of Apple in won",
        "how did Nvidia do this month?",
        "삼성전자 2026-11-12 종가",
        "Compare Apple and Nvidia",
        "100달러는 원화로 얼마야?",
        "is the US market open?",
        "한국 장 언제 열어?",
        "미국 휴장일",
        "is the US market open on Thanksgiving?",
        "show my portfolio",
        "alert me when AAPL rises above 300",
        "what is 12.5 * 8?",
        "what time is it in New York?",
    ],
)
async def test_an_answer_does_not_change_with_the_figures_of_a_text(question: str) -> None:
    plain, misled = await Talk().say(question), await MisleadingTalk().say(question)
    assert plain.results
    assert misled.reply == plain.reply
