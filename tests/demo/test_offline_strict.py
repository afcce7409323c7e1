"""The demo assistant answers only what it understands whole: the user trial's lines and others, none wrong."""

import re
import time

import pytest
from tests.demo.figures import numbers, unexplained, without_names
from tests.demo.held_out_lines import HELD_OUT
from tests.demo.strict_lines import STRICT, TRIAL, dialogues
from tests.demo.talk import Said, Talk
from tests.machine import slowness

from finclaw.demo.assistant.provider import decide
from finclaw.kernel.message import Text

TALKS = [*dialogues(TRIAL), *dialogues(STRICT), *dialogues(HELD_OUT)]


def refused(said: Said) -> bool:
    """No figure that a tool found is in the reply, and nothing was set or removed."""
    told = numbers(without_names(said)) & {abs(fact.value) for fact in said.facts}
    own = numbers(said.text)
    return not (told - own) and not re.search(
        "Alert set|Removed|알림을 설정했|지웠습니다|is open|열려 있|closed on", said.reply
    )


def is_right(said: Said, right: str) -> bool:
    """One of the rights: every part of it is in what was done, and what was done has no part beside them."""
    for each in right.lstrip("!").split(" | "):
        parts = [part.strip() for part in each.split(" & ")]
        if all(_did(said, part) for part in parts):
            return True
    return refused(said) and not right.startswith("!")


def _did(said: Said, part: str) -> bool:
    if part == "refuse":
        return refused(said)
    if part.startswith("times "):
        return f"{part.removeprefix('times ')} ×" in said.reply or f"× {part.removeprefix('times ')}" in said.reply
    if part in ("open", "high", "low"):
        return bool(re.search({"open": "opened at|시가는", "high": "High|고가", "low": "low|저가"}[part], said.reply))
    return said.did == part or said.did.startswith((f"{part};", f"{part} "))


@pytest.mark.parametrize("lines", TALKS, ids=[each[0][0] for each in TALKS])
async def test_nothing_is_answered_wrongly(lines: list[tuple[str, str]]) -> None:
    """User trial H2, H3, H4, H8, H9, M9 to M13."""
    talk, earlier = Talk(), list[Said]()
    for text, right in lines:
        said = await talk.say(text)
        assert is_right(said, right), f"{text!r}: {said.did!r} is not {right!r}: {said.reply}"
        assert not unexplained(said, *earlier)
        earlier.append(said)


async def test_the_language_is_that_of_the_last_message_with_words() -> None:
    """User trial M12: 애플 얼마야, TSLA, MSFT stays Korean."""
    talk = Talk()
    for text in ("애플 얼마야", "TSLA", "MSFT", "NVDA"):
        assert "종가는" in (await talk.say(text)).reply
    assert "closed at" in (await talk.say("and google?")).reply


@pytest.mark.parametrize("language", ["en", "ko"])
async def test_every_example_of_the_greeting_works_when_it_is_pasted(language: str) -> None:
    """User trial H4: the greeting's own example was refused."""
    greeting = (await Talk().say("hello" if language == "en" else "안녕하세요")).reply
    examples = [line.removeprefix("• ") for line in greeting.splitlines() if line.startswith("• ")]
    assert len(examples) == 6
    for example in examples:
        said = await Talk().say(example)
        assert said.did == "say alert_how" or (said.facts and not refused(said)), example


async def test_what_was_not_understood_is_named() -> None:
    assert "why" in (await Talk().say("why did tesla fall today")).reply
    assert "“왜”" in (await Talk().say("애플 주가 왜 떨어졌어?")).reply
    assert "“1,5”" in (await Talk().say("1,5 euro in won")).reply
    assert "“-100”" in (await Talk().say("-100 dollars in won")).reply


async def test_a_removed_alert_is_told_in_korean_and_in_seouls_time() -> None:
    """User trial H4: `출처: user, … UTC 기준` stood below a Korean answer."""
    talk = Talk()
    await talk.say("삼성전자 8만원 넘으면 알려줘")
    reply = (await talk.say("삼성전자 알림 삭제해줘")).reply
    assert "KST 기준, 출처: 데모 시장" in reply
    assert "UTC" not in reply


async def test_one_session_has_no_highest_and_lowest_close() -> None:
    assert "Highest" not in (await Talk().say("how did apple do yesterday")).reply


async def test_a_quantity_without_a_calculator_has_no_total() -> None:
    talk = Talk()
    del talk.tools["calc__evaluate"]
    said = await talk.say("10 shares of apple")
    assert refused(said), said.reply


@pytest.mark.parametrize(
    "text", ["1,", "1+", "and ", "가", "삼성전자 ", "will ", "10 shares ", "한 주 ", "( 1 + ", "ㅋ"]
)
@pytest.mark.parametrize("size", [599, 1_200, 1 << 20])
def test_hostile_text_is_cheap(text: str, size: int) -> None:
    talk = Talk()
    talk.add("user", Text((text * size)[:size]))
    request = talk.request()
    started = time.process_time()
    decide(request)
    cost = time.process_time() - started
    assert cost < 0.3 or cost < 0.3 * slowness()  # measured: 0.06 at worst
