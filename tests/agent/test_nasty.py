"""Several things go wrong in one question: nothing is said twice, nobody asks for ever, each bill is paid once."""

import asyncio
import random
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest
from tests.agent.bench import Bench, instead, other, under, waits
from tests.agent.talk import message

from finclaw.agent.model.failover import LONGEST, Cooldowns, ModelRoute, Route, policy_for
from finclaw.agent.model.retry import GO_ON
from finclaw.agent.settings import AgentSettings
from finclaw.errors import (
    AuthFailed,
    BadRequest,
    BudgetExceeded,
    ContextTooLong,
    NoStream,
    Overloaded,
    ProviderError,
    QuotaExceeded,
    RateLimited,
    ServerFailed,
    StreamCut,
    Unreachable,
)
from finclaw.kernel.chunk import Chunk, Features, Model, ModelRequest, Price, TextDelta, Usage, UsageReport
from finclaw.kernel.event import ModelRetried, TextStreamed
from finclaw.kernel.message import Message, Text
from finclaw.kernel.scope import TurnContext, TurnResult
from finclaw.testing import FakeClock, Reply, ScriptedProvider, call, delay, fails, reply, say
from finclaw.testing.provider import Line, Script


def streamed(bench: Bench) -> str:
    return "".join(event.text for event in bench.events if isinstance(event, TextStreamed))


def asked(bench: Bench) -> int:
    assert bench.provider is not None
    return len(bench.provider.requests)


def provider_of(route: ModelRoute) -> ScriptedProvider:
    assert isinstance(route.provider, ScriptedProvider)
    return route.provider


def long_talk(turns: int = 30, size: int = 300) -> list[Message]:
    told: list[Message] = []
    for number in range(turns):
        told.append(message(f"u{number}", "user", Text(f"{number} " + "word " * size)))
        told.append(message(f"a{number}", "assistant", Text("so " * size)))
    return told


# ── what was seen is not said again ─────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("DX-47")
@pytest.mark.parametrize("refusal", [ContextTooLong, BadRequest])
def test_half_an_answer_then_too_long_then_the_rest(refusal: type[ProviderError]) -> None:
    """Asked to go on, the question was too long for it: what is shortened is the talk, not what was seen."""
    window = 200_000 if refusal is ContextTooLong else 25_000  # nearly full, so that a plain refusal counts as one
    bench = Bench(base=long_talk(), model=Model("scripted", "one", window=window, max_output=1_000))
    heard: list[ModelRequest] = []
    lines = iter([reply(say("half an ans"), fault="cut"), fails(refusal("x")), reply("wer.")])

    def script(request: ModelRequest) -> Reply:
        if "summar" in request.system.casefold():
            return reply("A talk about words.")
        heard.append(request)
        return next(lines)

    result = bench.run(script)
    assert result.text == "half an answer."
    assert streamed(bench) == "half an answer.", "everything was told once"
    assert [each.messages[-1].text == GO_ON for each in heard] == [False, True, True]
    assert len(heard[-1].messages) < len(heard[-2].messages)


def test_every_try_says_one_word_and_breaks() -> None:
    bench = Bench()
    bench.fallbacks = [other(bench.clock, reply(say("4 "), fault="cut"), reply(say("5 "), fault=Overloaded("x")), "6")]
    pieces = [reply(say(f"{number} "), fault="cut") for number in (1, 2, 3)]
    assert bench.run(*pieces).text == "1 2 3 4 5 6"
    assert streamed(bench) == "1 2 3 4 5 6"
    last = provider_of(bench.fallbacks[0]).requests[-1]
    assert [each.text for each in last.messages[-2:]] == ["1 2 3 4 5 ", GO_ON]


@pytest.mark.spec("R-19", "DX-47")
def test_cut_after_a_whole_call_and_the_fallback_calls_another() -> None:
    bench = Bench()
    cut = reply(say("I look. "), call("nowhere", {"text": "x"}, id="call_first_and_lost_00"), fault="cut")
    bench.fallbacks = [other(bench.clock, reply(call("elsewhere")), "done")]
    result = bench.run(cut, *[fails(StreamCut("x"))] * 2, *[fails(StreamCut("x"))] * 3)
    assert result.text == "done"
    assert [each.name for each in bench.results] == ["elsewhere"], "a call that was cut is never run"
    assert streamed(bench) == "I look. done"


def test_cut_after_a_call_for_good_runs_nothing() -> None:
    bench = Bench()
    with pytest.raises(StreamCut):
        bench.run(*[reply(call("nowhere", {"text": "x"}), fault="cut")] * 3)
    assert bench.results == ()


def test_two_calls_of_which_one_is_half() -> None:
    bench = Bench()
    cut = reply(call("one", {"a": 1}), call("two", raw='{"a": '), fault=Overloaded("x"))
    result = bench.run(cut, reply(call("one", {"a": 1}), call("two", {"a": 2})), "done")
    assert result.text == "done"
    assert [each.name for each in bench.results] == ["one", "two"]


def test_only_blanks_were_said_before_the_cut() -> None:
    bench = Bench()
    result = bench.run(reply(say(" \n"), fault="cut"), "here")
    assert streamed(bench) == " \nhere"
    assert result.messages[-1].text == " \nhere"
    assert bench.provider is not None
    assert [each.messages[-1].text for each in bench.provider.requests] == ["go", "go"], "nothing to go on from"


# ── when to come back ───────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("wish", [float("nan"), float("inf"), -float("inf"), -1.0, 1e308])
def test_an_absurd_wish_keeps_nobody_waiting_nor_away_for_ever(wish: float) -> None:
    bench = Bench()
    bench.fallbacks = [other(bench.clock, *["from two"] * 5)]
    result = bench.run(*[fails(RateLimited("x", retry_after=wish))] * 3)
    assert result.text == "from two"
    assert bench.clock.monotonic() < 10


@pytest.mark.spec("RT-06")
@pytest.mark.parametrize("wish", [1e12, float("inf"), 86_400.0])
def test_who_asks_for_years_is_tried_again_within_the_hour(wish: float) -> None:
    clock = FakeClock()
    cooldowns = Cooldowns(clock)
    here = Route("a", "key", "big")
    error = RateLimited("x", retry_after=wish)
    cooldowns.note(here, error, policy_for(error).cools, wish)
    assert cooldowns.remaining(here) == LONGEST


def test_a_wish_in_the_first_refusal_does_not_hold_in_the_second() -> None:
    bench = Bench()
    bench.run(fails(RateLimited("x", retry_after=50)), fails(Overloaded("x")), "here")
    first, second = waits(bench)
    assert first == 50
    assert second <= 4


def test_a_wish_that_is_too_late_after_two_that_were_not() -> None:
    bench = Bench()
    bench.fallbacks = [other(bench.clock, "from two")]
    wishes = [fails(RateLimited("x", retry_after=wish)) for wish in (1.0, 61.0)]
    assert bench.run(*wishes).text == "from two"
    assert len(waits(bench)) == 1


# ── keys and chains ─────────────────────────────────────────────────────────────────────────────────────────


def keys(bench: Bench, *scripts: tuple[Line | Script, ...]) -> list[ScriptedProvider]:
    """More keys for the chosen model."""
    routes = [other(bench.clock, *script, credential=f"key-{n}", model="one") for n, script in enumerate(scripts, 2)]
    bench.fallbacks = [*routes, *bench.fallbacks]
    return [provider_of(route) for route in routes]


def test_every_key_is_refused_and_there_is_nobody_else() -> None:
    bench = Bench()
    second, third = keys(bench, (fails(QuotaExceeded("two")),), (fails(AuthFailed("three")),))
    with pytest.raises(AuthFailed, match="three"):
        bench.run(fails(AuthFailed("one")), "never asked")
    assert (asked(bench), len(second.requests), len(third.requests)) == (1, 1, 1)
    assert waits(bench) == [0.0, 0.0]


def test_every_key_is_refused_in_the_second_step_and_what_was_done_stays() -> None:
    bench = Bench()
    keys(bench, (fails(AuthFailed("two")),))
    with pytest.raises(AuthFailed):
        bench.run(reply(call("nowhere")), fails(AuthFailed("one")))
    assert len(bench.results) == 1


def test_all_keys_are_limited_and_the_last_one_is_waited_for() -> None:
    bench = Bench()
    (second,) = keys(bench, (fails(RateLimited("x", retry_after=9)), "here"))
    assert bench.run(fails(RateLimited("x", retry_after=5))).text == "here"
    assert (asked(bench), len(second.requests), waits(bench)) == (1, 2, [0.0, 9.0])


def test_a_key_is_refused_in_the_midst_of_an_answer() -> None:
    bench = Bench()
    keys(bench, (fails(Overloaded("x")), " three"))
    assert bench.run(reply(say("one two"), fault=AuthFailed("x"))).text == "one two three"
    assert streamed(bench) == "one two three"


@pytest.mark.parametrize("kind", [NoStream, Unreachable])
def test_a_page_instead_of_an_answer_is_anothers_to_answer(kind: type[ProviderError]) -> None:
    bench = Bench()
    bench.fallbacks = [other(bench.clock, reply(call("nowhere")), "from two")]
    (spare,) = keys(bench, ("never asked",))
    result = bench.run(*[fails(kind("a page"))] * 3)
    assert (result.text, result.steps) == ("from two", 2)
    assert asked(bench) == (1 if kind is NoStream else 3), "what was paid for once is not paid for thrice"
    assert spare.requests == [], "no key helps there"
    assert instead(bench) == ["scripted/two"]


def test_four_models_and_only_the_last_answers() -> None:
    bench = Bench()
    bench.fallbacks = [
        other(bench.clock, fails(QuotaExceeded("x")), model="two"),
        other(bench.clock, fails(NoStream("x")), model="three"),
        other(bench.clock, "from four", model="four"),
    ]
    assert bench.run(fails(AuthFailed("x"))).text == "from four"
    assert instead(bench) == ["scripted/two", "scripted/three", "scripted/four"]
    assert waits(bench) == []


def test_a_refusal_by_the_fallback_is_final() -> None:
    bench = Bench()
    third = other(bench.clock, "never asked", model="three")
    bench.fallbacks = [other(bench.clock, fails(BadRequest("no such field"))), third]
    with pytest.raises(BadRequest, match="no such field"):
        bench.run(fails(AuthFailed("x")))
    assert provider_of(third).requests == []


def test_when_everybody_cools_all_are_asked_all_the_same() -> None:
    bench = Bench()
    bench.fallbacks = [other(bench.clock, fails(AuthFailed("x")), "from two at last")]
    with pytest.raises(AuthFailed):
        bench.run(fails(AuthFailed("x")))
    assert instead(bench) == ["scripted/two"]


# ── a smaller window ────────────────────────────────────────────────────────────────────────────────────────


def small(bench: Bench, script: Script, window: int = 8_000, model: str = "small") -> ModelRoute:
    return ModelRoute(ScriptedProvider(script, clock=bench.clock), Model("scripted", model, window=window))


def test_a_fallback_with_a_smaller_window_gets_a_shorter_talk() -> None:
    bench = Bench(base=long_talk())
    sizes: list[int] = []

    def script(request: ModelRequest) -> Reply:
        sizes.append(sum(len(each.text) for each in request.messages))
        return reply("from small")

    bench.fallbacks = [small(bench, script)]
    assert bench.run(fails(AuthFailed("x")), *[fails(AuthFailed("x"))] * 9).text == "from small"
    assert sizes[-1] < 8_000 * 4


def test_a_fallback_too_small_for_the_question_is_passed_over() -> None:
    bench = Bench()
    bench.base = [message("u", "user", Text("hi")), message("a", "assistant", Text("so"))]
    bench.settings = AgentSettings(max_tokens=512)
    tiny = ModelRoute(
        ScriptedProvider("never asked", clock=bench.clock), Model("scripted", "tiny", window=600, max_output=512)
    )
    bench.fallbacks = [tiny, other(bench.clock, "from two")]

    async def wordy(ctx: TurnContext) -> TurnResult:
        ctx.system = "Be good. " * 2_000
        return await ctx.next()

    bench.turn.append(wordy)
    assert bench.run(fails(AuthFailed("x"))).text == "from two"
    assert provider_of(tiny).requests == []
    assert instead(bench) == ["scripted/two"], "who was not asked is not told"


def test_a_small_fallback_that_overflows_all_the_same_is_shortened_for_and_bounded() -> None:
    bench = Bench(base=long_talk())

    def never(request: ModelRequest) -> Reply:
        return reply(fault=ContextTooLong("still too long"), after=0)

    route = small(bench, never)
    bench.fallbacks = [route]
    with pytest.raises(ContextTooLong):
        bench.run(*[fails(AuthFailed("x"))] * 9)
    assert len(provider_of(route).requests) <= 12


def test_a_fallback_that_takes_no_words_to_stop_at_gets_none() -> None:
    bench = Bench(settings=AgentSettings(stop_sequences=("END",)))
    bench.fallbacks = [other(bench.clock, "from two")]
    route = bench.fallbacks[0]
    bench.fallbacks = [ModelRoute(route.provider, Model("scripted", "two", features=Features(stop_sequences=False)))]
    assert bench.run(fails(AuthFailed("x"))).text == "from two"
    assert bench.provider is not None
    assert bench.provider.requests[0].stop_sequences == ("END",)
    assert provider_of(bench.fallbacks[0]).requests[0].stop_sequences == ()


# ── money ───────────────────────────────────────────────────────────────────────────────────────────────────

DEAR = Model("scripted", "one", max_output=1_000, price=Price(Decimal(1), Decimal(10)))
"""A question may cost a cent and a little."""


@pytest.mark.spec("DX-47")
def test_the_limit_is_reached_between_two_tries() -> None:
    """The first was paid for and broke off; for the second nothing is left."""
    bench = Bench(model=DEAR)
    house = under(bench, turn_usd="0.015", month_usd="1")
    with pytest.raises(BudgetExceeded):
        bench.run(reply(say("half"), usage=Usage(1_000, 900), fault=Overloaded("x"), after=2), "never asked")
    assert asked(bench) == 1
    assert streamed(bench) == "half"
    (month,) = [each for each in house.accounts("main", "ada") if each.name == "month_usd"]
    assert (month.spent, month.reserved) == (Decimal("0.01"), 0)


class TellsTooEarly:
    """What it costs, before it says anything, as Anthropic's API does; then it speaks, and breaks off."""

    name = "scripted"

    async def stream(self, request: ModelRequest) -> AsyncIterator[Chunk]:
        yield UsageReport(Usage(input=1_000, output=1))
        yield TextDelta("word " * 500)
        raise AuthFailed("x")

    async def close(self) -> None:
        pass


def test_what_was_said_before_the_cut_is_paid_for_though_nobody_told() -> None:
    bench = Bench(model=DEAR)
    house = under(bench, month_usd="1")
    bench.fallbacks = [ModelRoute(TellsTooEarly(), DEAR, "second")]
    with pytest.raises(AuthFailed):
        bench.run(fails(AuthFailed("x")))
    (month,) = [each for each in house.accounts("main", "ada") if each.name == "month_usd"]
    assert Decimal("0.005") < month.spent < Decimal("0.008"), "500 words at 10 dollars for a million, and the question"
    assert bench.log is not None
    assert sum((each.cost for each in bench.log.side_costs), Decimal(0)) == month.spent


def test_at_the_limit_a_cheaper_one_goes_on() -> None:
    bench = Bench(model=DEAR)
    under(bench, turn_usd="0.015")
    cheap = Model("scripted", "cheap", max_output=1_000, price=Price(Decimal("0.01"), Decimal("0.1")))
    bench.fallbacks = [ModelRoute(ScriptedProvider(" more", clock=bench.clock), cheap)]
    result = bench.run(reply(say("half"), usage=Usage(1_000, 900), fault=Overloaded("x"), after=2))
    assert result.text == "half more"
    assert instead(bench) == ["scripted/cheap"]


def test_a_fallback_without_a_price_is_not_asked_under_a_budget() -> None:
    bench = Bench(model=DEAR)
    house = under(bench, month_usd="1")
    unpriced = other(bench.clock, "never asked")
    bench.fallbacks = [unpriced]
    with pytest.raises(BudgetExceeded):
        bench.run(*[fails(Overloaded("x"))] * 3)
    assert provider_of(unpriced).requests == []
    assert max(each.reserved for each in house.accounts("main", "ada")) == 0


@pytest.mark.parametrize("moment", [0.5, 2.5], ids=["in the pause", "in the answer"])
def test_a_stop_gives_back_what_was_reserved_and_pays_what_was_said(moment: float) -> None:
    bench = Bench(model=DEAR)
    house = under(bench, month_usd="1")

    async def stopped() -> None:
        script = (fails(Overloaded("x")), reply(say("a few words"), delay(60), say("never said"), usage=None))
        turn = asyncio.create_task(bench.go(*script))
        await bench.clock.sleep(moment)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    bench.clock.run(stopped())
    (month,) = [each for each in house.accounts("main", "ada") if each.name == "month_usd"]
    assert month.reserved == 0
    assert (month.spent > 0) == (moment > 1)
    assert bench.log is not None
    assert sum((each.cost for each in bench.log.side_costs), Decimal(0)) == month.spent


def test_a_stop_while_another_turn_holds_the_money() -> None:
    bench = Bench(model=DEAR)
    house = under(bench, month_usd="0.015")
    held = house.reserve(house.accounts("main", "bob"), Decimal("0.01"))

    async def stopped() -> None:
        turn = asyncio.create_task(bench.go("never asked"))
        await bench.clock.sleep(5)
        assert asked(bench) == 0, "it waits for what the other holds"
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    bench.clock.run(stopped())
    (month,) = [each for each in house.accounts("main", "ada") if each.name == "month_usd"]
    assert month.reserved == Decimal("0.01"), "the other's, and nothing of ours"
    assert held is not None


def test_a_stop_in_a_pause_between_two_models() -> None:
    bench = Bench()
    bench.fallbacks = [other(bench.clock, fails(Overloaded("x")), "never asked")]

    async def stopped() -> None:
        turn = asyncio.create_task(bench.go(fails(AuthFailed("x"))))
        await bench.clock.sleep(0.5)
        turn.cancel()
        with pytest.raises(asyncio.CancelledError):
            await turn

    bench.clock.run(stopped())
    assert instead(bench) == ["scripted/two"]
    assert len(provider_of(bench.fallbacks[0]).requests) == 1


# ── everything at once ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("seed", range(60))
def test_any_row_of_failures_ends_and_says_nothing_twice(seed: int) -> None:
    dice = random.Random(seed)
    kinds: list[Any] = [RateLimited, Overloaded, ServerFailed, Unreachable, StreamCut, AuthFailed, QuotaExceeded]
    kinds += [NoStream, BadRequest, ContextTooLong]
    word = iter(range(1_000))

    def line(request: ModelRequest) -> Reply:
        said = [say(f"{next(word)} ")] if dice.random() < 0.5 else []
        if dice.random() < 0.3:
            return reply(*said, "end")
        return reply(*said, fault=dice.choice(kinds)("x"))

    bench = Bench(base=[message("u", "user", Text("hi")), message("a", "assistant", Text("so"))])
    names = [("one", "key-2"), ("two", "default"), ("two", "key-2"), ("three", "default")]
    bench.fallbacks = [
        ModelRoute(ScriptedProvider(line, clock=bench.clock), Model("scripted", model), key) for model, key in names
    ]
    try:
        result = bench.run(line)
    except ProviderError:
        pass
    else:
        assert result.messages[-1].text == streamed(bench)
    numbers = [int(each) for each in streamed(bench).removesuffix("end").split()]
    assert numbers == sorted(set(numbers)), "each piece once, in order"
    total = asked(bench) + sum(len(provider_of(route).requests) for route in bench.fallbacks)
    assert total <= 3 * 5 * 3
    assert not [event for event in bench.events if isinstance(event, ModelRetried) and event.wait_s > 60]
