"""In which language a person is spoken to."""

import pytest

from finclaw.text import language_of


@pytest.mark.parametrize(
    "text",
    [
        "삼성전자 주가",
        "AAPL TSLA NVDA MSFT GOOG 얼마야",
        "ㅋㅋ",
        "ok, 알겠어",
        "Tesla랑 Apple 얼마야?",
        "```code``` 설명해 주세요",
    ],
)
def test_korean(text: str) -> None:
    assert language_of(text) == "ko"


@pytest.mark.parametrize("text", ["", "123 %", "What is AAPL?", "AAPL", "What is 삼성전자 trading at?", "日本語", "é"])
def test_everything_else_is_answered_in_english(text: str) -> None:
    assert language_of(text) == "en"
