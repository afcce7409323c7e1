"""The corpus: every line is answered rightly or gets the short reply, in its language, with no number of its own."""

import re
from datetime import timedelta
from pathlib import Path

import pytest
from tests.demo.corpus import ANSWERED, DIALOGUES, HOSTILE, SHORT, TRIAL, dialogues, lines
from tests.demo.figures import unexplained, wrong_language
from tests.demo.talk import NOW, Said, Talk

from finclaw.demo.assistant.answer import EXAMPLES, PHRASES
from finclaw.kernel.message import ToolCall
from finclaw.text import language_of

ROOT = Path(__file__).parents[2]
CASES = [row for block in dialogues(ANSWERED) for row in block]
TALKS = [*dialogues(DIALOGUES), *dialogues(TRIAL)]


@pytest.mark.parametrize(("text", "did"), CASES)
async def test_line_is_answered(text: str, did: str) -> None:
    said = await Talk().say(text)
    assert said.did == did, said.reply
    assert not unexplained(said)
    assert not wrong_language(said, language_of(text))


@pytest.mark.parametrize("text", lines(SHORT))
async def test_line_that_fits_no_pattern_gets_the_short_reply(text: str) -> None:
    said = await Talk().say(text)
    assert said.reply.startswith(PHRASES["not understood"][language_of(text)])


@pytest.mark.parametrize("rows", TALKS, ids=[rows[0][0] for rows in TALKS])
async def test_conversation(rows: list[tuple[str, str]]) -> None:
    talk, earlier = Talk(), list[Said]()
    for text, did in rows:
        said = await talk.say(text)
        assert said.did == did, f"{text!r}: {said.reply}"
        assert not unexplained(said, *earlier)
        earlier.append(said)


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
async def test_hostile_text_gets_an_honest_reply(text: str) -> None:
    said = await Talk().say(text)
    assert 0 < len(said.reply) < 4_000
    assert not any(line.strip().startswith("<<") for line in said.reply.splitlines())
    assert not unexplained(said)
    assert not wrong_language(said, language_of(text))


@pytest.mark.parametrize("language", ["en", "ko"])
async def test_every_example_is_answered(language: str) -> None:
    for example in EXAMPLES["ko" if language == "ko" else "en"]:
        said = await Talk().say(example)
        assert said.results, example
        assert said.did != "short", example


@pytest.mark.parametrize(
    ("path", "example"),
    [
        ("src/finclaw/builtins/conversation_commands.py", r"(?:For example|예): (.+?)\\n"),
        ("README.md", r'(?:finclaw ask |Inbound\(text=)"(.+?)"'),
        ("README.ko.md", r'(?:finclaw ask |Inbound\(text=)"(.+?)"'),
    ],
)
async def test_every_example_elsewhere_is_answered(path: str, example: str) -> None:
    texts = re.findall(example, (ROOT / path).read_text("utf-8"))
    assert len(texts) > 1
    for text in texts:
        said = await Talk().say(text)
        assert said.facts, text
        assert said.did != "short", text


async def test_exam_is_tomorrow_or_this_year_only_if_it_is() -> None:
    tomorrow = "내일 수능인데 주식시장 몇시에 시작해?"
    this_year = "올해 수능일 장 시간"
    assert (await Talk(NOW + timedelta(days=2)).say(tomorrow)).did == "calendar KRX 12"
    assert (await Talk(NOW + timedelta(days=3)).say(tomorrow)).did == "short"
    assert (await Talk(NOW + timedelta(days=4)).say(this_year)).did == "short"


async def test_portfolio_has_gains_sums_total_and_source() -> None:
    reply = (await Talk().say("내 포트폴리오")).reply
    assert "- 삼성전자 (005930) 50주: 3,770,000원, ▲ 10.88% 상승 (370,000원)\n" in reply
    assert "- 비트코인 (BTC-USD) 0.05개: " in reply
    assert (
        "\n\n통화별 합계: 5,354,800원, 10,282.26달러\n"
        "**총 평가액: 19,361,295원** · 적용 환율 USD/KRW 1,362.20 · 2026-11-16 14:32 KST 기준 · 출처: 데모 시장"
    ) in reply
    reply = (await Talk().say("my portfolio")).reply
    assert "- NAVER (035420) × 8: ₩1,584,800, ▼ down 1.69% (₩27,200)\n" in reply
    assert "**Total value: $14,213.25** · rate used USD/KRW 1,362.20 · " in reply
    assert " · as of 2026-11-16 05:32 UTC · source: demo market" in reply


async def test_introduction_is_said_once_in_a_conversation() -> None:
    talk = Talk()
    replies = [(await talk.say(text)).reply for text in ("asdf asdf", "apple price", "애플 얼마야", "안녕하세요")]
    assert [("offline demo with 44 instruments" in each or "오프라인 데모" in each) for each in replies] == [1, 0, 0, 0]


async def test_language_is_that_of_the_last_message_with_words() -> None:
    talk = Talk()
    for text in ("애플 얼마야", "TSLA", "MSFT", "NVDA"):
        assert "직전 종가" in (await talk.say(text)).reply
    assert "previous close" in (await talk.say("and google?")).reply


async def test_silence_about_an_instrument_ends_what_it_means() -> None:
    talk = Talk()
    await talk.say("What is AAPL trading at?")
    for _ in range(8):
        await talk.say("hello")
    assert (await talk.say("and in won?")).did == "short"


async def test_offer_of_two_messages_ago_is_not_taken_up() -> None:
    talk = Talk()
    for text in ("price of teslla", "hello"):
        await talk.say(text)
    assert (await talk.say("yes")).did == "short"


async def test_message_without_words_is_not_answered_with_the_last_price() -> None:
    talk = Talk()
    await talk.say("What is AAPL trading at?")
    assert (await talk.say("")).did == "say wordless"


async def test_quantity_without_a_calculator_has_no_total() -> None:
    talk = Talk()
    del talk.tools["calc__evaluate"]
    reply = (await talk.say("10 shares of apple")).reply
    assert "did not work" in reply
    assert "2,230" not in reply


async def test_answers_are_worded_as_commands_word_them() -> None:
    talk = Talk()
    assert (await talk.say("What is AAPL trading at?")).reply.startswith(
        "**Apple (AAPL)** $223.03  ▲ $6.32 (+2.92%)\nprevious close $216.71 · volume 50,636,016\n"
        "Nasdaq · market closed · as of 2026-11-13 16:00 EST · source: demo market"
    )
    assert (await talk.say("and in won?")).reply.endswith("\n= **₩303,811** · rate used USD/KRW 1,362.20")
    assert (await talk.say("10 shares of apple")).reply.startswith("**10 × $223.03 = $2,230.30**\n\n**Apple (AAPL)**")
    assert (await talk.say("미국장 언제 열려?")).reply == (
        "**뉴욕증권거래소** 닫힘 (개장 전) · 2026-11-16 09:30 EST (2026-11-16 23:30 KST) 개장\n"
        "**뉴욕증권거래소** 2026-11-16 · 2026-11-16 09:30 EST (2026-11-16 23:30 KST) 개장 · "
        "2026-11-16 16:00 EST (2026-11-17 06:00 KST) 마감\n"
        "개장 시간: 2026-11-16 14:32 KST 기준, 출처: FinClaw 시장 달력"
    )
    assert (await talk.say("수능날 장 몇 시에 열어?")).reply.startswith(
        "**한국거래소** 2026-11-19 (대학수학능력시험) · 2026-11-19 10:00 KST 개장 · 2026-11-19 16:30 KST 마감\n"
    )
    assert (await talk.say("네카오 얼마야")).reply == (
        "“네카오”에 해당하는 종목이 여럿입니다. 어느 종목을 말씀하시나요?\n• 네이버 (035420)\n• 카카오 (035720)"
    )


async def test_exam_of_next_year_is_found_after_the_one_of_this_year() -> None:
    reply = (await Talk(NOW + timedelta(days=5)).say("수능날 장 몇 시에 열어?")).reply
    assert reply.startswith("**한국거래소** 2027-11-18 (대학수학능력시험) · 2027-11-18 10:00 KST 개장")


async def test_watchlist_is_shown_and_changed_by_command_alone() -> None:
    talk = Talk()
    assert "empty" in (await talk.say("my watchlist")).reply
    await talk.run(ToolCall("c", "watch__add", {"symbols": ["TSLA"]}))
    assert "테슬라 (TSLA)" in (await talk.say("관심 종목 보여줘")).reply
    for text in ("add apple to my watchlist", "관심종목에서 테슬라 삭제해줘"):
        said = await talk.say(text)
        assert not said.calls
        assert "AAPL" in said.reply
