"""No invented number, for questions nobody wrote down: generated from their parts, at any time of any day."""

import asyncio
from datetime import UTC, datetime, timedelta

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.demo.figures import unexplained, wrong_language
from tests.demo.talk import Said, Talk
from tests.machine import examples

from finclaw.demo.listings import DEMO_LISTINGS

INSTRUMENTS = [listing.instrument for listing in DEMO_LISTINGS]
MOMENTS = st.integers(0, 2 * 365 * 24 * 60).map(lambda each: datetime(2026, 1, 5, tzinfo=UTC) + timedelta(minutes=each))
AMOUNTS = st.one_of(
    st.integers(1, 10**12).map(lambda each: f"{each:,}"), st.decimals(0, 10**6, places=2).map(lambda each: f"{each:f}")
)
ENGLISH = st.sampled_from([each.name_en for each in INSTRUMENTS] + [each.symbol for each in INSTRUMENTS])
KOREAN = st.sampled_from([each.name_ko for each in INSTRUMENTS])

QUESTIONS_EN = st.one_of(
    st.builds("What is {} trading at?".format, ENGLISH),
    st.builds("{} price in {}".format, ENGLISH, st.sampled_from(["won", "dollars", "yen", "euros"])),
    st.builds("how did {} do this {}?".format, ENGLISH, st.sampled_from(["week", "month", "year", "quarter"])),
    st.builds("compare {} and {} this {}".format, ENGLISH, ENGLISH, st.sampled_from(["week", "month", "year"])),
    st.builds("convert {} {} to {}".format, AMOUNTS, *[st.sampled_from(["USD", "KRW", "EUR", "JPY", "BTC"])] * 2),
    st.builds("{} shares of {}".format, AMOUNTS, ENGLISH),
    st.builds("{} chart".format, ENGLISH),
    st.sampled_from(["is the market open?", "next holidays", "show my portfolio", "and in won?", "crypto hours"]),
    st.text(max_size=40),
)
QUESTIONS_KO = st.one_of(
    st.builds("{} 얼마야?".format, KOREAN),
    st.builds("{} {} 수익률".format, KOREAN, st.sampled_from(["이번 주", "지난달", "올해", "1년"])),
    st.builds("{}랑 {} 비교해줘".format, KOREAN, KOREAN),
    st.builds("{}{} {}로 얼마야".format, AMOUNTS, *[st.sampled_from(["원", "달러", "엔", "유로"])] * 2),
    st.builds("{} {}주 얼마야".format, KOREAN, AMOUNTS),
    st.sampled_from(["장 열렸어?", "미국 휴장일", "내 포트폴리오 보여줘", "그럼 원화로는?", "코인 거래 시간"]),
)


async def _talk(moment: datetime, questions: list[str]) -> list[Said]:
    talk = Talk(moment)
    return [await talk.say(question) for question in questions]


@settings(max_examples=examples(150), deadline=None)
@given(MOMENTS, st.lists(QUESTIONS_EN, min_size=1, max_size=3))
def test_every_number_of_an_english_answer_has_a_fact(moment: datetime, questions: list[str]) -> None:
    turns = asyncio.run(_talk(moment, questions))
    for place, said in enumerate(turns):
        assert said.reply
        assert not unexplained(said, *turns[:place])


@settings(max_examples=examples(150), deadline=None)
@given(MOMENTS, st.lists(QUESTIONS_KO, min_size=1, max_size=3))
def test_every_number_of_a_korean_answer_has_a_fact(moment: datetime, questions: list[str]) -> None:
    turns = asyncio.run(_talk(moment, questions))
    for place, said in enumerate(turns):
        assert said.reply
        assert not unexplained(said, *turns[:place])
        assert not wrong_language(said, "ko", *turns[:place])
