"""Notes that the gateway adds to an answer: figures without a source are marked, and no model reads a note again."""

import time
from typing import Any

import pytest
from msgspec.structs import replace
from tests.machine import is_quick
from tests.walks.house import Gateway, House, crash, in_virtual_time
from tests.walks.tools import PRICE, price_tool

from finclaw.builtins.answer_notes import LINES
from finclaw.finance.extension import DEMO_LINES
from finclaw.kernel.envelope import Capabilities, Outbound
from finclaw.kernel.scope import DeliveryContext
from finclaw.testing import call, delay, reply, say
from finclaw.testing.channel import PROFILES
from finclaw.transcript.conversation_file import read_conversation, write_conversation

ENGLISH = "(No source was consulted for these figures.)"
KOREAN = "(이 수치는 출처를 확인하지 않았습니다.)"
FIGURE_LINE = LINES["retail"]["figure"]["en"]
MARK = f"{ENGLISH}\n\n{DEMO_LINES['en']}"
CUT = "(The answer was cut off here: it had reached its longest. Ask me to go on.)"
MAIN = "main:memory:local:direct:main+ada"

FIGURES = """\
Apple is at $999.99 right now, up 12.3% today.
10.063239, 2023-02-24
Tesla trades at 312.
It fell by 5-7% in `AAPL`.
애플은 현재 217달러입니다.
시가총액은 약 3조 원입니다.
현재가는 75800입니다.
코스피 2,650, 나스닥 18,000에 마감했습니다.
KOSPI 2,650.30 and S&P 5,900 today.
KOSPI 2600
In short: `AAPL: $187`
PER 30배, PBR 1.2배입니다.
It trades at 95.
Bitcoin is at 2000.
It has a market cap of 3T.""".splitlines()
NO_FIGURES = """\
The New York market is open.
1. Stocks 2. Bonds 3. Cash
It was founded in 1976 and has changed a lot in 2001-2010.
The session of 2026-11-18 opens at 09:30 EST. 2026년 11월 19일에는 10시에 엽니다.
The S&P 500, the Nasdaq 100, the Russell 2000, KOSPI 200 and 코스피 200 are indices.
삼성전자(005930)와 LG화학(051910)을 말씀하시나요?
Python 3.11, version 2.0, v1.2.3, AP-10023 and https://a.example/x-999 will do, as in `x = 1_000.5`.
I am 100% sure: HTTP 404, 365 days, 200-day average, Rule 144, a 401(k), Fortune 500, EMA 200, [card …1111].
Call 02-3774-9000.
```AAPL 187.20```
You said $1,500.50 and 20%, that is, 1500.50.""".splitlines()


def last_words(gateway: Gateway) -> list[str]:
    """What the model was given as its own words."""
    return [message.text for message in gateway.seen if message.role == "assistant"]


# ── figures without a source ────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_figures_without_a_fact_are_marked(house: House) -> None:
    async with house.open(*FIGURES) as gateway:
        for answer in FIGURES:
            mark = f"{KOREAN}\n\n{DEMO_LINES['ko']}" if "니다" in answer else MARK
            assert (await gateway.ask("How much is it?")).reply == f"{answer}\n\n{mark}"


@in_virtual_time
async def test_dates_names_code_and_the_persons_own_figures_are_not(house: House) -> None:
    async with house.open(*NO_FIGURES) as gateway:
        for answer in NO_FIGURES:
            assert (await gateway.ask("I have $1,500.50 and 20% of it in cash.")).reply == answer


@pytest.mark.parametrize(
    ("facts", "answer", "mark"),
    [((PRICE,), "About $200.", ""), ((), "It says $190.50.", ""), ((), "It says $190.60.", f"\n\n{MARK}")],
)
@in_virtual_time
async def test_facts_and_texts_of_tools_are_sources(house: House, facts: Any, answer: str, mark: str) -> None:
    async with house.open(call("price", {}), answer, tools=[price_tool(*facts)]) as gateway:
        assert str((await gateway.ask("How much?")).reply).replace(f"\n\n{FIGURE_LINE}", "") == f"{answer}{mark}"


@in_virtual_time
async def test_figures_of_earlier_turns_are_sources(house: House) -> None:
    answers = call("price", {}), "It is $190.50.", "As I said, $190.50, and 20% of yours.", "And $190.60."
    async with house.open(*answers, tools=[price_tool()]) as gateway:
        await gateway.ask("How much? I have 20% of it.")
        assert (await gateway.ask("Again?")).reply == answers[2]
        assert (await gateway.ask("Again?")).reply == f"{answers[3]}\n\n{MARK}"


@in_virtual_time
async def test_time_of_day_is_no_source_of_a_price(house: House) -> None:
    clock = replace(PRICE, source="clock")
    async with house.open(call("price", {}), "It is $999.", tools=[price_tool(clock)]) as gateway:
        assert ENGLISH in str((await gateway.ask("How much?")).reply)


@in_virtual_time
async def test_many_figures_of_a_person_are_searched_in_bounded_time(house: House) -> None:
    async with house.open("It is $999.") as gateway:
        began = time.process_time()
        assert ENGLISH in str((await gateway.ask("1 " * 99_000)).reply)
        assert is_quick(time.process_time() - began, 0.7)


@pytest.mark.parametrize("rest", ["And that is all.", ""])
@pytest.mark.parametrize("on", [Capabilities(blocks=True), PROFILES["telegram"]])
@in_virtual_time
async def test_mark_stands_at_the_end_of_blocks_and_previews(house: House, on: Capabilities, rest: str) -> None:
    first = "Apple is at $999.99, I think. " * 10
    async with house.open(reply(say(first), delay(10), say(rest)), capabilities=on) as gateway:
        await gateway.ask("How much?")
        assert "\n".join(gateway.said).count(ENGLISH) == 1
        assert gateway.said[-1].endswith(MARK)


@in_virtual_time
async def test_resumed_turn_has_the_mark_once(house: House) -> None:
    await crash(house, "results:after_commit", call("price", {}), tools=[price_tool()])
    async with house.open("It is $999.", tools=[price_tool()]) as gateway:
        await gateway.app.idle()
        assert gateway.said == [f"It is $999.\n\n{MARK}"]


# ── notes are not the model's words ─────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_model_reads_its_own_words_and_the_person_all_of_them(house: House) -> None:
    async with house.open(reply("It closed at 75,3", stop="max_tokens"), "00 won.") as gateway:
        await gateway.ask("How is Samsung?")
        await gateway.ask("go on")
        assert last_words(gateway) == ["It closed at 75,3"]
    async with house.open("Yes.") as gateway:
        await gateway.ask("sure?")
        assert last_words(gateway) == ["It closed at 75,3", "00 won."]
        content = write_conversation(MAIN, await gateway.app.messages(MAIN))
        assert f"It closed at 75,3\\n\\n{CUT}" in content.decode()
        assert read_conversation(content)[1] == tuple(await gateway.app.messages(MAIN))


@pytest.mark.parametrize(
    "written",
    [
        "It closed at 75,3 (or so)\n(unaudited)",
        f"half\n\n{CUT}\nmore",
        f"half\n\n{CUT}",
        "It\n(was closed)\n\n(closed)",
    ],
)
@in_virtual_time
async def test_only_what_the_model_did_not_write_is_a_note(house: House, written: str) -> None:
    async def shout(ctx: DeliveryContext) -> Outbound:
        outbound = await ctx.next()
        return Outbound(text=outbound.text.replace("closed", "CLOSED"))

    async with house.open(reply(written, stop="max_tokens"), "ok", layers=[("delivery", shout, 500)]) as gateway:
        await gateway.ask("How is Samsung?")
        await gateway.ask("go on")
        assert last_words(gateway) == [written.replace("closed", "CLOSED")]


@in_virtual_time
async def test_requests_stay_the_same_for_an_unchanged_history(house: House) -> None:
    async with house.open("It is $999.", "It is $998.", "It is $997.") as gateway:
        for question in ("one?", "two?", "three?"):
            await gateway.ask(question)
        second, third = ([each.text for each in request.messages] for request in gateway.provider.requests[1:])
        assert third[: len(second)] == second
