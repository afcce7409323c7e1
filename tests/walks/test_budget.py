"""A budget on the road: what is spent is written down, at the limit the sender is told, and the next day goes on."""

import asyncio
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.walks.budgets import COST, SONNET, TEN_CENTS, answer, limit, refusals
from tests.walks.house import Gateway, House, crash, in_virtual_time, until
from tests.walks.tools import Desk

from finclaw.agent.budget.settings import BudgetSettings
from finclaw.agent.settings import AgentSettings
from finclaw.builtins.delegate import NAME as DELEGATE
from finclaw.errors import ConfigError, Overloaded
from finclaw.kernel.chunk import ModelRequest, Usage
from finclaw.kernel.event import BudgetWarned, ModelFellBack
from finclaw.kernel.record import CostsBy
from finclaw.storage.kinds import StoreKind
from finclaw.testing import Reply, call, delay, fails, reply, say


async def costs(gateway: Gateway, by: CostsBy = "user", days: int = 1) -> dict[str, Decimal]:
    return {each.name: each.cost for each in await gateway.app.costs(days, by)}


# ── the books ───────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CO-01", "DX-49")
@in_virtual_time
async def test_every_call_of_a_turn_is_in_the_books(house: House) -> None:
    script = (reply(call("look"), usage=TEN_CENTS), answer(), answer())
    async with house.open(*script, tools=[Desk().tool("look")], agent=SONNET) as gateway:
        outcome = await gateway.ask("go")
        await gateway.ask("go", sender="bob", conversation="bobs")
        assert outcome.cost == 2 * COST
        assert await costs(gateway) == {"memory:local:ada": 2 * COST, "memory:local:bob": COST}
        (line,) = await gateway.app.costs(1, "model")
        assert (line.name, line.calls, line.usage.cache_read) == ("anthropic/claude-sonnet-4-6", 3, 99)
        assert line.saved == 99 * Decimal("2.7") / 1_000_000


@pytest.mark.spec("DX-49")
@in_virtual_time
async def test_what_was_paid_for_in_vain_is_in_the_books_too(house: House) -> None:
    """Each of three tries reported its usage before it broke off: a failed turn is not a free one."""
    broken = reply("half", usage=TEN_CENTS, fault=Overloaded("x"), after=2)
    async with house.open(broken, broken, broken, agent=SONNET) as gateway:
        outcome = await gateway.ask("go")
        assert (outcome.kind, outcome.cost) == ("failed", 3 * COST)
        assert await costs(gateway) == {"memory:local:ada": 3 * COST}


@in_virtual_time
async def test_a_turn_that_was_reset_away_is_in_the_books(house: House) -> None:
    """Its conversation is somebody else's by now; the bill is not."""
    script = (reply(call("look"), usage=TEN_CENTS), reply(delay(5), "never seen", usage=TEN_CENTS))
    async with house.open(*script, tools=[Desk().tool("look")], agent=SONNET) as gateway:
        accepted = await gateway.channel.write("go")
        await until(lambda: len(gateway.provider.requests) == 2)
        await gateway.app.reset(accepted.session)
        assert (await gateway.outcome(accepted)).kind == "stopped"
        assert await costs(gateway) == {"memory:local:ada": 2 * COST}


@in_virtual_time
async def test_a_helpers_turn_is_the_persons_own_cost(house: House) -> None:
    def boss(request: ModelRequest) -> Reply:
        if any(message.tool_results for message in request.messages):
            return answer("done")
        asked = request.messages[-1].text
        return answer("found") if asked == "find out" else reply(call(DELEGATE, {"task": "find out"}), usage=TEN_CENTS)

    delegating = AgentSettings(model=SONNET.model, max_tokens=6_100, delegate=True)
    async with house.open(boss, agent=delegating, budget=limit(user_day_usd="9")) as gateway:
        assert (await gateway.ask("please")).reply == "done"
        assert await costs(gateway) == {"memory:local:ada": 3 * COST}


@pytest.mark.parametrize("budget", [None, limit(agent_day_usd="5", turn_usd="5")], ids=["without", "with a budget"])
@pytest.mark.parametrize(
    ("point", "lost", "interrupted"),
    [("results:after_commit", 0, 1), ("tools:started", 0, 0), ("model:ended", 1, 1)],
)
@in_virtual_time
async def test_a_resumed_turn_is_charged_once(
    house: House, point: str, lost: int, interrupted: int, budget: BudgetSettings | None
) -> None:
    """An answer that no disk has seen is not lost to the books: its call is there as interrupted.

    So is the next one, where the process died when it was about to leave: nobody knows that it did not.
    """
    tools = [Desk().tool("look")]
    asking = reply(call("look"), usage=TEN_CENTS)
    await crash(house, point, asking, tools=tools, agent=SONNET, budget=budget)
    again = (asking, answer()) if lost else (answer(),)
    async with house.open(*again, tools=tools, agent=SONNET, budget=budget) as gateway:
        await gateway.app.idle()
        (line,) = await gateway.app.costs(1, "user")
        assert (line.calls, line.interrupted) == (2 + interrupted, interrupted)
        assert line.cost == 2 * COST + line.interrupted_cost
    async with house.open(agent=SONNET, budget=budget) as gateway:
        assert list(await gateway.app.costs(1, "user")) == [line]


# ── at the limit ────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "english", "korean", "wait"),
    [
        ("user_day_usd", "left of today's budget is not enough", "오늘 남은 예산으로는", timedelta(days=1)),
        ("agent_day_usd", "left of today's budget is not enough", "오늘 남은 예산으로는", timedelta(days=1)),
        ("month_usd", "left of this month's budget is not enough", "이번 달 남은 예산으로는", timedelta(days=31)),
    ],
)
@in_virtual_time
async def test_at_the_limit_the_sender_is_told_and_later_it_works_again(
    house: House, name: str, english: str, korean: str, wait: timedelta
) -> None:
    async with house.open(answer(), answer(), answer("back"), agent=SONNET, budget=limit(**{name: "0.24"})) as gateway:
        for _ in range(2):
            assert (await gateway.ask("go")).kind == "answered"
        outcome = await gateway.ask("How is AAPL doing?")
        assert (outcome.kind, outcome.aborted_at) == ("failed", "execute")
        assert english in gateway.said[-1]
        assert (await gateway.ask("삼성전자 얼마야?")).kind == "failed"
        assert korean in gateway.said[-1]
        assert [event.limit for event in refusals(gateway)] == [name] * 2
        assert refusals(gateway)[0].turn_id == outcome.turn_id
        (warned,) = (event for event in gateway.events if isinstance(event, BudgetWarned))
        assert (warned.limit, warned.spent_usd) == (name, 2 * COST)
        assert len(gateway.provider.requests) == 2, "nobody was asked"
        house.clock.jump(wait)
        assert (await gateway.ask("and now?")).reply == "back"


@pytest.mark.parametrize("name", ["user_day_usd", "agent_day_usd", "month_usd"])
@in_virtual_time
async def test_after_a_restart_the_limit_is_still_reached(house: House, name: str) -> None:
    budget = limit(**{name: "0.24"})
    async with house.open(answer(), answer(), agent=SONNET, budget=budget) as gateway:
        await gateway.ask("go")
        await gateway.ask("go")
    async with house.open(agent=SONNET, budget=budget) as gateway:
        assert (await gateway.ask("go")).kind == "failed"
        assert (refusals(gateway)[0].limit, refusals(gateway)[0].spent_usd) == (name, 2 * COST)


@in_virtual_time
async def test_what_a_crash_left_unfinished_counts_against_the_limit_once_it_goes_on(house: House) -> None:
    tools, budget = [Desk().tool("look")], limit(turn_usd="0.15", agent_day_usd="9")
    asking = reply(call("look"), usage=TEN_CENTS)
    accepted = await crash(house, "results:after_commit", asking, tools=tools, agent=SONNET, budget=budget)
    async with house.open(tools=tools, agent=SONNET, budget=budget) as gateway:
        outcome = await gateway.outcome(accepted)
        assert outcome.kind == "failed"
        await gateway.app.idle()
        assert "cost more than one answer may" in gateway.said[0]
        (line,) = await gateway.app.costs(1, "user")
        assert (line.calls, line.interrupted, line.cost) == (2, 1, COST + line.interrupted_cost)
        assert outcome.cost == line.cost


@in_virtual_time
async def test_a_turn_that_reaches_its_own_limit_keeps_what_it_did(house: House) -> None:
    script = (reply("I look. ", call("look"), usage=TEN_CENTS), answer("next"))
    async with house.open(*script, tools=[Desk().tool("look")], agent=SONNET, budget=limit(turn_usd="0.15")) as gateway:
        assert (await gateway.ask("go")).cost == COST
        assert "cost more than one answer may" in gateway.said[-1]
        assert (await gateway.ask("go on")).reply == "next", "the next turn has its own"


@in_virtual_time
async def test_another_persons_budget_is_untouched(house: House) -> None:
    async with house.open(answer(), answer("hello bob"), agent=SONNET, budget=limit(user_day_usd="0.15")) as gateway:
        await gateway.ask("go")
        assert (await gateway.ask("go")).kind == "failed"
        assert (await gateway.ask("go", sender="bob", conversation="bobs")).reply == "hello bob"


@in_virtual_time
async def test_whoever_stops_an_answer_pays_for_what_came(house: House) -> None:
    """And what was held for it is free again."""
    endless = reply(say("word " * 400), delay(99), say("never"), usage=None)
    async with house.open(endless, answer(), agent=SONNET, budget=limit(agent_day_usd="0.16")) as gateway:
        accepted = await gateway.channel.write("go")
        await until(
            lambda: gateway.provider.streaming == 1 and any(e.name == "stream:text_delta" for e in gateway.events)
        )
        assert gateway.app.stop_message(accepted.id)
        outcome = await gateway.outcome(accepted)
        assert outcome.kind == "stopped"
        assert outcome.usage.output >= 300
        assert await costs(gateway) == {"memory:local:ada": outcome.cost}
        assert (await gateway.ask("again")).kind == "answered"


@in_virtual_time
async def test_a_provider_that_refuses_costs_nothing(house: House) -> None:
    script = [*[fails(Overloaded("x"))] * 3, answer()]
    async with house.open(*script, agent=SONNET, budget=limit(agent_day_usd="0.15")) as gateway:
        assert (await gateway.ask("go")).cost == 0
        assert await costs(gateway) == {}
        house.clock.advance(3_600)
        assert (await gateway.ask("go")).kind == "answered"


@in_virtual_time
async def test_fifty_turns_at_once_stay_within_the_limit(house: House) -> None:
    """Each answers when it likes; all that were let through are within the limit, and the rest are told."""

    def slowly(request: ModelRequest) -> Reply:
        length = len(request.messages[-1].text)
        return reply(delay(length % 7), "fine", usage=Usage(input=1_000, output=6_000 - 10 * length))

    async with house.open(slowly, agent=SONNET, budget=limit(agent_day_usd="1.05")) as gateway:
        taken = [
            await gateway.channel.write("go" + "!" * number, sender=f"user {number}", conversation=f"c {number}")
            for number in range(50)
        ]
        outcomes = await asyncio.gather(*map(gateway.outcome, taken))
        kinds = [outcome.kind for outcome in outcomes]
        answered = kinds.count("answered")
        (day,) = await gateway.app.costs(1, "day")
        assert 8 <= answered == day.calls == len(gateway.provider.requests) < 14
        assert len(refusals(gateway)) == kinds.count("failed") == 50 - answered
        assert day.cost == sum(outcome.cost for outcome in outcomes) <= Decimal("1.05")
        assert all(day.cost + each.needed_usd > Decimal("1.05") for each in refusals(gateway)), "none in haste"


# ── prices ──────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CO-02")
@pytest.mark.parametrize("name", ["turn_usd", "user_day_usd", "agent_day_usd", "month_usd"])
@in_virtual_time
async def test_a_model_without_a_price_is_refused_at_the_start(house: House, name: str) -> None:
    unpriced = AgentSettings(model="scripted/secret")
    with pytest.raises(ConfigError, match=r"models\.scripted/secret\.input_price"):
        async with house.open("never", agent=unpriced, budget=limit(**{name: "1"})):
            pass
    async with house.open("fine", agent=unpriced) as gateway:  # and without a budget it is used, and counted
        await gateway.ask("go")
        (line,) = await gateway.app.costs(1, "model")
        assert (line.name, line.calls, line.cost) == ("scripted/secret", 1, 0)


@in_virtual_time
async def test_a_layer_that_chooses_a_model_without_a_price_gets_no_answer(house: House) -> None:
    async def choose(ctx: Any) -> Any:
        ctx.model = type(ctx.model)("scripted", "secret")
        return await ctx.next()

    async with house.open(agent=SONNET, layers=[("turn", choose)], budget=limit(month_usd="9")) as gateway:
        outcome = await gateway.ask("go")
        assert outcome.kind == "failed"
        assert "no price is known of scripted/secret" in outcome.reason
        assert "has to be put right" in gateway.said[0]


@pytest.mark.spec("RT-06")
@in_virtual_time
async def test_a_cheaper_model_that_still_fits_is_asked_instead(house: House) -> None:
    """Each is judged by itself: what costs nothing goes on when all is spent, and both are told."""
    frugal = AgentSettings(model=SONNET.model, max_tokens=6_100, fallbacks=("offline/demo",))
    async with house.open(answer(), agent=frugal, budget=limit(agent_day_usd="0.15")) as gateway:
        await gateway.ask("go")
        outcome = await gateway.ask("hello")
        assert (outcome.kind, outcome.cost) == ("answered", 0)
        assert [event.model for event in refusals(gateway)] == [SONNET.model]
        (told,) = (event for event in gateway.events if isinstance(event, ModelFellBack))
        assert (told.model, told.instead) == (SONNET.model, "offline/demo")
        assert told.error.startswith("BudgetExceeded: a call that may cost")
        assert (await costs(gateway, "model"))["offline/demo"] == 0


@in_virtual_time
async def test_tries_with_another_model_are_charged_at_its_own_price(house: House) -> None:
    """The dear one broke off after its usage was known; the free one answered. The answer is not free for it."""
    broken = reply(usage=TEN_CENTS, fault=Overloaded("x"), after=1)
    frugal = AgentSettings(model=SONNET.model, max_tokens=6_100, fallbacks=("offline/demo",))
    async with house.open(broken, broken, broken, agent=frugal, budget=limit(agent_day_usd="9")) as gateway:
        outcome = await gateway.ask("hello")
        assert (outcome.kind, outcome.cost) == ("answered", 3 * COST)
        assert sum((await costs(gateway)).values()) == 3 * COST


@pytest.mark.parametrize("kind", ["sqlite", "jsonl"])
@in_virtual_time
async def test_what_the_budget_refused_does_not_make_the_next_call_dearer(house: House, kind: StoreKind) -> None:
    """User trial, friction: each refused `hi` stayed in the conversation, and was sent along with the next."""
    house.kind = kind
    small = limit(agent_day_usd="0.15")
    async with house.open(answer("one"), answer("two"), agent=SONNET, budget=small) as gateway:
        await gateway.ask("first")
        for _ in range(3):
            assert (await gateway.ask("hi, refused")).kind == "failed"
        needed = {each.needed_usd for each in refusals(gateway)}
        assert len(needed) == 1, "the third is no dearer than the first"
        house.clock.jump(timedelta(days=1))
        assert (await gateway.ask("second")).reply == "two"
        assert [message.text for message in gateway.seen] == ["first", "one", "second"]
        refused = [turn for turn in await gateway.app.turns(9) if turn.opening == "hi, refused"]
        assert len(refused) == 3, "what became of them is on record"
    async with house.open(answer("three"), agent=SONNET, budget=small) as gateway:
        house.clock.jump(timedelta(days=1))
        await gateway.ask("third")
        assert [message.text for message in gateway.seen] == ["first", "one", "second", "two", "third"]
