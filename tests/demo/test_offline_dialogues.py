"""Conversations with follow-ups, questions back and choices."""

import pytest
from tests.demo.dialogues import dialogues
from tests.demo.figures import unexplained, wrong_language
from tests.demo.talk import Said, Talk

from finclaw.text import language_of

DIALOGUES = dialogues()


@pytest.mark.parametrize("lines", DIALOGUES, ids=[each[0][0] for each in DIALOGUES])
async def test_each_line_is_understood_by_those_before_it(lines: list[tuple[str, str]]) -> None:
    talk, earlier = Talk(), list[Said]()
    language = language_of(lines[0][0])
    for text, did in lines:
        said = await talk.say(text)
        assert said.did == did, text
        assert not unexplained(said, *earlier)
        assert not wrong_language(said, language, *earlier)
        earlier.append(said)


async def test_a_long_silence_about_it_ends_what_it_means() -> None:
    talk = Talk()
    await talk.say("What is AAPL trading at?")
    for _ in range(8):
        await talk.say("hello")
    assert (await talk.say("and in won?")).did == "say unknown"


async def test_what_was_offered_two_messages_ago_is_not_taken_up() -> None:
    talk = Talk()
    await talk.say("price of teslla")
    await talk.say("hello")
    assert (await talk.say("yes")).did == "say ok"


async def test_a_message_without_words_is_not_answered_with_the_last_price() -> None:
    talk = Talk()
    await talk.say("What is AAPL trading at?")
    assert (await talk.say("")).did == "say wordless"


async def test_an_answer_reads_well_in_english() -> None:
    talk = Talk()
    assert (await talk.say("What is AAPL trading at?")).reply == (
        "Apple (AAPL) closed at $223.03, up $6.32 (+2.92%) from its previous close of $216.71. "
        "(As of 2026-11-13 16:00 EST, market closed, source: demo market)"
    )
    assert (await talk.say("and in won?")).reply.endswith(
        "That is ₩303,811 (rate used: USD/KRW 1,362.20). "
        "(As of 2026-11-13 16:00 EST, market closed, source: demo market)"
    )


async def test_an_answer_reads_well_in_korean() -> None:
    talk = Talk()
    assert (await talk.say("삼성전자 현재 주가 알려줘")).reply == (
        "삼성전자(005930) 현재가는 75,400원입니다. 직전 종가 75,300원 대비 ▲ 100원 (+0.13%). "
        "(2026-11-16 14:32 KST 기준, 출처: 데모 시장)"
    )
    assert (await talk.say("미국장 언제 열려?")).reply == (
        "뉴욕증권거래소(NYSE)는 지금 닫혀 있습니다(개장 전). 2026-11-16 09:30 EST (2026-11-16 23:30 KST)에 열립니다. "
        "마감은 2026-11-16 16:00 EST (2026-11-17 06:00 KST)입니다.\n"
        "(2026-11-16 14:32 KST 기준, 출처: FinClaw 시장 달력)"
    )


async def test_an_ambiguous_name_is_asked_back_in_the_readers_language() -> None:
    assert (await Talk().say("samsung price")).reply == (
        "“samsung” may mean several. Which one?\n"
        "• Samsung Electronics (005930)\n• Samsung Biologics (207940)\n• Samsung SDI (006400)"
    )
    assert (await Talk().say("네카오 얼마야")).reply == (
        "“네카오”에 해당하는 종목이 여럿입니다. 어느 것인가요?\n• 네이버(035420)\n• 카카오(035720)"
    )
