"""User trial H6: a model call that a crash, a restart or a stop cut off is in the books, and budgets count it."""

import asyncio
from decimal import Decimal
from typing import Any

import pytest
from tests.support.disk import Disk
from tests.walks.budgets import COST, SONNET, TEN_CENTS, answer, limit
from tests.walks.house import Gateway, House, crash, in_virtual_time, until
from tests.walks.tools import Desk

from finclaw.agent.budget.settings import BudgetSettings
from finclaw.agent.settings import AgentSettings
from finclaw.builtins.delegate import NAME as DELEGATE
from finclaw.errors import AuthFailed, Overloaded
from finclaw.kernel.chunk import ModelRequest
from finclaw.kernel.record import Cost
from finclaw.storage.kinds import StoreKind
from finclaw.testing import Reply, SimulatedCrash, call, crash_at, delay, fails, reply, say

BEFORE_THE_ANSWER_IS_ON_DISK = ("model:reserved", "model:first_chunk", "model:ended", "model:settled")


async def booked(gateway: Gateway) -> Cost:
    (line,) = await gateway.app.costs(1, "model")
    return line


@pytest.mark.parametrize("storage", ["sqlite", "jsonl"])
@pytest.mark.parametrize("point", BEFORE_THE_ANSWER_IS_ON_DISK)
@in_virtual_time
async def test_a_call_that_died_with_the_process_is_booked_as_interrupted(
    house: House, point: str, storage: StoreKind
) -> None:
    house.kind = storage
    accepted = await crash(house, point, answer(), agent=SONNET)
    async with house.open(answer("fine"), agent=SONNET) as gateway:
        assert (await gateway.outcome(accepted)).reply == "fine"
        line = await booked(gateway)
        assert (line.calls, line.interrupted) == (2, 1)
        assert line.interrupted_cost > 0
        assert line.cost == line.interrupted_cost + COST
    async with house.open(agent=SONNET) as gateway:
        assert await booked(gateway) == line, "once, however often it is started"


@pytest.mark.parametrize("storage", ["sqlite", "jsonl"])
@in_virtual_time
async def test_of_a_turn_with_tools_only_the_call_that_was_cut_off_is_interrupted(
    house: House, storage: StoreKind
) -> None:
    house.kind = storage
    tools = [Desk().tool("look")]
    asking = reply(call("look"), usage=TEN_CENTS)
    accepted = await crash(house, "model:first_chunk", asking, answer(), n=2, tools=tools, agent=SONNET)
    async with house.open(answer("fine"), tools=tools, agent=SONNET) as gateway:
        outcome = await gateway.outcome(accepted)
        line = await booked(gateway)
        assert (line.calls, line.interrupted) == (3, 1)
        assert line.cost == line.interrupted_cost + 2 * COST == outcome.cost


@pytest.mark.parametrize("storage", ["sqlite", "jsonl"])
@pytest.mark.parametrize("heard", [True, False], ids=["in the middle of the answer", "before the first word"])
@in_virtual_time
async def test_an_orderly_stop_books_what_was_streamed(house: House, storage: StoreKind, heard: bool) -> None:
    house.kind = storage
    endless = reply(*([say("word " * 400)] if heard else []), delay(99), say("never"), usage=None)
    async with house.open(endless, agent=SONNET) as gateway:
        await gateway.channel.write("go")
        await until(lambda: gateway.provider.streaming == 1)
        await asyncio.sleep(0.1)
    async with house.open(delay_then_answer(), agent=SONNET) as gateway:
        line = await booked(gateway)
        assert (line.calls, line.interrupted) == (1, 1)
        assert line.usage.input > 100
        assert 300 <= line.usage.output <= 600 if heard else line.usage.output == 0


def delay_then_answer() -> Reply:
    return reply(delay(60), "fine", usage=TEN_CENTS)


async def die_in_a_call(house: House, budget: BudgetSettings) -> int:
    """A process that dies with the first word of an answer, if it asks for one; how many calls have left."""
    slowly = reply(delay(5), "fine", usage=TEN_CENTS)
    dead: list[asyncio.Task[Any] | None] = []

    def die(point: str) -> None:
        dead.append(asyncio.current_task())
        raise SimulatedCrash(point)

    async with house.open(slowly, agent=SONNET, budget=budget) as gateway:
        with crash_at("model:first_chunk", 1, die):
            await gateway.channel.write("buy", message_id="m-1")
            await asyncio.sleep(10)
        assert all(isinstance(task.exception(), SimulatedCrash) for task in dead if task is not None)
        return len(gateway.provider.requests)


@pytest.mark.parametrize("name", ["turn_usd", "user_day_usd", "agent_day_usd", "month_usd"])
@in_virtual_time
async def test_kills_do_not_make_a_budget_longer(house: House, name: str) -> None:
    """Each call may cost some 11 cents, so of 30 no more than two may leave, however often the process dies."""
    budget = limit(**{name: "0.30"})
    calls = [await die_in_a_call(house, budget) for _ in range(4)]
    assert calls == [1, 1, 0, 0]
    async with house.open(answer(), agent=SONNET, budget=budget) as gateway:
        line = await booked(gateway)
        assert (line.calls, line.interrupted, line.cost) == (2, 2, line.interrupted_cost)
        assert Decimal("0.20") < line.cost <= Decimal("0.30")
        outcome = await gateway.ask("and now?", conversation="another")
        assert outcome.kind == ("answered" if name == "turn_usd" else "failed")


# ── siblings ────────────────────────────────────────────────────────────────────────────────────────────────


@in_virtual_time
async def test_a_process_that_dies_in_each_try_has_booked_every_one_before_its_message_is_given_up(
    house: House,
) -> None:
    """The rule `the process died 3 times` ends the message; its calls were paid for all the same."""
    for _ in range(3):
        assert await die_in_a_call(house, limit(agent_day_usd="9")) == 1
    async with house.open(agent=SONNET) as gateway:
        await gateway.app.idle()
        (turn,) = await gateway.app.turns(1)
        line = await booked(gateway)
        assert (line.calls, line.interrupted) == (3, 3)
        assert (turn.status, turn.cost) == ("failed", line.cost)


@in_virtual_time
async def test_a_try_that_follows_a_broken_one_is_reserved_by_itself(house: House) -> None:
    """The second call of the same question: the reservation of the first is settled by then."""
    broken = reply("half", usage=TEN_CENTS, fault=Overloaded("x"), after=2)
    accepted = await crash(house, "model:first_chunk", broken, answer(), n=2, agent=SONNET)
    async with house.open(answer("fine"), agent=SONNET) as gateway:
        outcome = await gateway.outcome(accepted)
        line = await booked(gateway)
        assert (line.calls, line.interrupted) == (3, 1)
        assert line.cost == 2 * COST + line.interrupted_cost == outcome.cost


@in_virtual_time
async def test_a_fallback_that_dies_is_booked_under_its_own_name(house: House) -> None:
    frugal = AgentSettings(model=SONNET.model, max_tokens=6_100, fallbacks=("offline/demo",))
    await crash(house, "model:first_chunk", fails(AuthFailed("x")), agent=frugal)
    async with house.open(answer("fine"), agent=frugal) as gateway:
        await gateway.app.idle()
        lines = {line.name: (line.calls, line.interrupted) for line in await gateway.app.costs(1, "model")}
        assert lines == {"offline/demo": (1, 1), SONNET.model: (1, 0)}


@in_virtual_time
async def test_a_helpers_call_that_dies_is_the_persons_own_cost(house: House) -> None:
    def boss(request: ModelRequest) -> Reply:
        if request.messages[-1].text == "find out":
            return answer("found")
        if any(message.tool_results for message in request.messages):
            return answer("done")
        return reply(call(DELEGATE, {"task": "find out"}), usage=TEN_CENTS)

    delegating = AgentSettings(model=SONNET.model, max_tokens=6_100, delegate=True)
    async with house.open(boss, agent=delegating) as gateway:
        with crash_at("model:first_chunk", 2):
            await gateway.channel.write("please")
            await asyncio.sleep(10)
    async with house.open(boss, agent=delegating) as gateway:
        await gateway.app.idle()
        (line,) = await gateway.app.costs(1, "user")
        assert line.name == "memory:local:ada"
        assert line.interrupted >= 1
        assert line.calls >= 4


@in_virtual_time
async def test_a_message_that_is_stopped_before_the_first_word_pays_for_its_question(house: House) -> None:
    """We left, and nobody said that the question cost nothing. It is no interruption: a person wanted it."""
    async with house.open(reply(delay(99), "never"), agent=SONNET) as gateway:
        accepted = await gateway.channel.write("go")
        await until(lambda: gateway.provider.streaming == 1)
        await asyncio.sleep(1)
        assert gateway.app.stop_message(accepted.id)
        outcome = await gateway.outcome(accepted)
        line = await booked(gateway)
        assert (line.calls, line.interrupted, line.cost) == (1, 0, outcome.cost)
        assert line.usage.input > 100


# ── the disk ────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("script", "commits"),
    [
        (["fine"], 3),
        ([reply(call("look")), "fine"], 5),
        ([reply("half", fault=Overloaded("x"), after=2), " and half"], 4),
    ],
    ids=["a plain turn", "with a tool", "with a second try"],
)
@in_virtual_time
async def test_a_reservation_rides_a_commit_that_there_is_anyway(house: House, script: list[Any], commits: int) -> None:
    """Accepted and claimed, finished, sent; a tool adds its start and its result; only a second try adds its own."""
    with Disk(default=True) as disk:
        async with house.open("first", *script, tools=[Desk().tool("look")], agent=SONNET) as gateway:
            await gateway.ask("first")
            before = disk.counts["sync"]
            assert (await gateway.ask("second")).kind == "answered"
            assert disk.counts["sync"] - before == commits
