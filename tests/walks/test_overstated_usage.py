"""A provider that reports more tokens than a call can use: what is booked never exceeds what was reserved for it."""

from decimal import Decimal
from typing import Any

import pytest
from tests.walks.budgets import COST, SONNET, answer
from tests.walks.house import Gateway, House, in_virtual_time

from finclaw.agent.budget.settings import BudgetSettings
from finclaw.agent.settings import AgentSettings
from finclaw.kernel.chunk import Usage
from finclaw.kernel.record import Cost
from finclaw.storage.kinds import StoreKind
from finclaw.testing import reply

MOST = Decimal("0.2")
"""Dollars: more than any call of these tests reserves."""
WINDOW = 200_000
ABSURD = {
    "input": Usage(input=10**19, output=5),
    "output": Usage(input=50, output=10**12),
    "cache read": Usage(cache_read=10**30, output=5),
    "cache write": Usage(cache_write=2**64, output=5),
    "everything": Usage(10**9, 10**9, 10**9, 10**9),
    "three times the window": Usage(input=600_000, output=5),
    "fifty times the request": Usage(input=150_000, output=5),
}


async def books(gateway: Gateway) -> Cost:
    (line,) = await gateway.app.costs(1, "model")
    return line


@pytest.mark.parametrize("usage", ABSURD.values(), ids=ABSURD.keys())
@pytest.mark.parametrize("limit", [None, Decimal(1)], ids=["no budget", "a dollar a day"])
@in_virtual_time
async def test_the_whole_reservation_is_booked(
    house: House, usage: Usage, limit: Decimal | None, caplog: pytest.LogCaptureFixture
) -> None:
    script = (reply("odd", usage=usage), answer(), answer())
    async with house.open(*script, agent=SONNET, budget=BudgetSettings(agent_day_usd=limit)) as gateway:
        first = await gateway.ask("go")
        assert 0 < first.cost < MOST
        assert f"(${first.cost}); the maximum is booked" in caplog.text
        assert first.usage.total <= WINDOW
        assert (await gateway.ask("again")).kind == "answered", "the day's budget is not used up"
        assert (await gateway.ask("and again")).cost == COST, "what is possible is booked as reported"
        line = await books(gateway)
        assert (line.calls, line.overstated, line.cost) == (3, 1, first.cost + 2 * COST)


@in_virtual_time
async def test_overstated_usage_is_logged_with_both_figures(house: House, caplog: pytest.LogCaptureFixture) -> None:
    async with house.open(reply("odd", usage=Usage(input=10**15)), answer(), agent=SONNET) as gateway:
        await gateway.ask("go")
        await gateway.ask("go")
    (warning,) = [each.getMessage() for each in caplog.records if "reported a usage" in each.getMessage()]
    assert "anthropic/claude-sonnet-4-6" in warning
    assert "1,000,000,000,000,000 tokens" in warning
    assert "$0.1" in warning


@pytest.mark.parametrize("usage", [*ABSURD.values()][:6])
@in_virtual_time
async def test_tokens_of_a_model_without_a_price_are_limited_too(house: House, usage: Usage) -> None:
    async with house.open(reply("odd", usage=usage), agent=AgentSettings(model="scripted/secret")) as gateway:
        outcome = await gateway.ask("go")
        assert 0 < outcome.usage.total <= WINDOW
        assert (await books(gateway)).overstated == 1


@pytest.mark.parametrize("counts", [(-(10**9), -5), (float("nan"), float("inf"))], ids=["negative", "NaN"])
@in_virtual_time
async def test_a_usage_that_is_no_count_neither_pays_nor_breaks_the_answer(house: House, counts: Any) -> None:
    async with house.open(reply("odd", usage=Usage(*counts)), answer(), agent=SONNET) as gateway:
        outcome = await gateway.ask("go")
        assert (outcome.kind, outcome.reply) == ("answered", "odd")
        assert 0 <= outcome.cost < MOST
        await gateway.ask("go")
        assert (await books(gateway)).cost >= COST


@in_virtual_time
async def test_an_absurd_report_does_not_shorten_the_conversation(house: House) -> None:
    """Its figure is not taken for the size of the conversation, nor for how this model counts."""
    script = [reply("odd", usage=Usage(input=10**19)), *[reply("odd", usage=Usage(input=10**19))] * 5, answer()]
    async with house.open(*script, agent=SONNET) as gateway:
        for number in range(7):
            await gateway.ask(f"question {number}")
        assert len(gateway.provider.requests) == 7, "nobody was asked for a summary"
        assert any(each.text == "question 0" for each in gateway.seen)


@pytest.mark.parametrize("storage", ["sqlite", "jsonl"])
@in_virtual_time
async def test_overstated_calls_are_marked_after_a_restart(house: House, storage: StoreKind) -> None:
    house.kind = storage
    async with house.open(reply("odd", usage=Usage(input=10**19)), agent=SONNET) as gateway:
        await gateway.ask("go")
    async with house.open(agent=SONNET) as gateway:
        assert (await books(gateway)).overstated == 1
        assert "reported more than 1 of these calls could cost" in ((await gateway.ask("/cost")).reply or "")
        assert "1건은 제공사가 보고한 사용량" in ((await gateway.ask("/비용")).reply or "")
