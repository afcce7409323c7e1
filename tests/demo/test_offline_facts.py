"""The assistant reads facts: whatever a tool's text says, the answer is the one of its facts and of our records."""

import pytest
from msgspec.structs import replace
from tests.demo.talk import Talk

from finclaw.kernel.message import ToolCall, ToolResult


class MisleadingTalk(Talk):
    """The tools' texts are of something else."""

    async def run(self, call: ToolCall) -> ToolResult:
        result = await super().run(call)
        misleading = "symbol: XXX\nname: Another\nname_ko: 다른 것\nzone: Asia/Tokyo\nprice: 1\nmarket: closed"
        return replace(result, content=misleading) if result.status == "ok" else result


@pytest.mark.parametrize(
    "question",
    [
        "What is AAPL trading at?",
        "삼성전자 거래량 알려줘",
        "chart of apple",
        "my watchlist",
        "수능날 장 몇 시에 열어?",
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
        "내일 한국 장 열어?",
        "코인 시장 휴장일",
        "지금 몇 시야?",
    ],
)
async def test_an_answer_does_not_change_with_the_text_of_a_result(question: str) -> None:
    plain, misled = await Talk().say(question), await MisleadingTalk().say(question)
    assert plain.results
    assert misled.reply == plain.reply
