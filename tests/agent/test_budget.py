"""What may be spent: reserved before, settled after, and never more, however many ask at once."""

import asyncio
import random
from dataclasses import dataclass, field
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.machine import examples

from finclaw.agent.budget.budget import (
    Account,
    Budget,
    BudgetRefusal,
    LimitName,
    Reservation,
    Spent,
    TurnBudget,
)
from finclaw.agent.budget.call_ledger import CallSettlement, Payer, Settle, Settled, UsageMeter, most_of
from finclaw.agent.budget.settings import BudgetSettings
from finclaw.errors import BudgetExceeded, ConfigError
from finclaw.kernel.chunk import Model, ModelRequest, Price, ToolSpec, Usage
from finclaw.kernel.event import BudgetRefused, BudgetWarned, Event
from finclaw.kernel.message import Message, Source, Text
from finclaw.kernel.scope import Ids
from finclaw.testing import FakeClock
from finclaw.testing.clock import EPOCH

SONNET = Price(Decimal(3), Decimal(15), Decimal("0.3"), Decimal("3.75"))
PRICED = Model("scripted", "one", price=SONNET)
dollars = st.decimals(0, 10, places=6)


def question(text: str = "hello", *, model: Model = PRICED, most: int = 1_000, system: str = "") -> ModelRequest:
    asked = Message(text[:40], "user", (Text(text),), Source("user"), EPOCH)
    return ModelRequest(model=model, system=system, messages=(asked,), max_tokens=most)


def budget(clock: FakeClock | None = None, spent: Spent | None = None, /, **limits: str) -> Budget:
    chosen: dict[str, Decimal | None] = {name: Decimal(limit) for name, limit in limits.items()}
    given = BudgetSettings(**{"agent_day_usd": None, **chosen})
    return Budget(given, clock or FakeClock(), spent)


def taken(found: Reservation | BudgetRefusal) -> Reservation:
    assert isinstance(found, Reservation), str(found)
    return found


# ── the arithmetic ──────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.spec("CO-01", "CO-03", "PC-03")
def test_four_counts_at_four_prices_exactly() -> None:
    usage = Usage(input=1_000_001, output=3, cache_read=7, cache_write=11)
    assert SONNET.cost(usage) == Decimal("3.00009135")
    assert SONNET.cost(Usage()) == 0


@pytest.mark.spec("PC-04", "CO-03")
@pytest.mark.parametrize(
    ("usage", "saved"),
    [
        (Usage(input=500, output=9), "0"),
        (Usage(cache_read=1_000_000), "2.7"),
        (Usage(cache_write=1_000_000), "-0.75"),
        (Usage(cache_read=1_000_000, cache_write=4_000_000), "-0.3"),
    ],
)
def test_what_a_cache_saves_is_measured_and_may_be_a_loss(usage: Usage, saved: str) -> None:
    assert SONNET.saved(usage) == Decimal(saved)
    without = Usage(input=usage.input + usage.cache_read + usage.cache_write, output=usage.output)
    assert SONNET.cost(without) - SONNET.cost(usage) == Decimal(saved), "against the same tokens without a cache"


@given(st.lists(dollars, max_size=60))
def test_sums_are_exact(costs: list[Decimal]) -> None:
    account = Account("month_usd", Decimal(10_000))
    house = budget(month_usd="10000")
    for cost in costs:
        house.settle(taken(house.reserve([account], Decimal(10))), cost)
    assert account.spent == sum(costs, Decimal(0))
    assert account.reserved == 0


# ── reserve and settle ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["user_day_usd", "agent_day_usd", "month_usd"])
def test_each_limit_by_itself(name: LimitName) -> None:
    house = budget(**{name: "1"})
    accounts = house.accounts("main", "ada")
    reservation = taken(house.reserve(accounts, Decimal("0.6")))
    refused = house.reserve(accounts, Decimal("0.6"))
    assert isinstance(refused, BudgetRefusal)
    assert (refused.name, refused.passing, accounts[0].reserved) == (name, True, Decimal("0.6")), "nothing more is held"
    house.settle(reservation, Decimal("0.5"))
    final = house.reserve(accounts, Decimal("0.6"))
    assert isinstance(final, BudgetRefusal)
    assert not final.passing
    assert f"$0.5 of the $1 of budget.{name}" in str(final)
    assert isinstance(house.reserve(accounts, Decimal("0.5")), Reservation), "up to the last cent"


def test_a_refusal_holds_nothing_anywhere() -> None:
    house = budget(user_day_usd="5", agent_day_usd="1")
    accounts = house.accounts("main", "ada")
    assert isinstance(house.reserve(accounts, Decimal(2)), BudgetRefusal)
    assert [each.reserved for each in accounts] == [0, 0]


def test_settled_twice_is_settled_once() -> None:
    house = budget(agent_day_usd="1")
    accounts = house.accounts("main", "ada")
    reservation = taken(house.reserve(accounts, Decimal("0.5")))
    house.settle(reservation, Decimal("0.2"))
    assert house.settle(reservation, Decimal("0.2")) == []
    assert (accounts[0].spent, accounts[0].reserved) == (Decimal("0.2"), 0)


def test_nothing_is_given_back_for_a_report_of_less_than_nothing() -> None:
    house = budget(agent_day_usd="1")
    accounts = house.accounts("main", "ada")
    house.settle(taken(house.reserve(accounts, Decimal("0.5"))), Decimal(-3))
    assert (accounts[0].spent, accounts[0].reserved) == (0, 0)


def test_one_persons_day_is_nobody_elses() -> None:
    house = budget(user_day_usd="1")
    house.charge(house.accounts("main", "ada"), Decimal(1))
    assert isinstance(house.reserve(house.accounts("main", "ada"), Decimal("0.1")), BudgetRefusal)
    assert isinstance(house.reserve(house.accounts("main", "bob"), Decimal("0.1")), Reservation)


def test_what_costs_nothing_fits_also_when_all_is_spent() -> None:
    house = budget(agent_day_usd="1")
    house.charge(house.accounts("main", "ada"), Decimal(2))
    assert isinstance(house.reserve(house.accounts("main", "ada"), Decimal(0)), Reservation)


def test_days_and_months_begin_anew_at_midnight_utc() -> None:
    clock = FakeClock(EPOCH.replace(month=1, day=30, hour=23))
    house = budget(clock, agent_day_usd="1", month_usd="2")
    house.charge(house.accounts("main", "ada"), Decimal(1))
    assert isinstance(house.reserve(house.accounts("main", "ada"), Decimal(1)), BudgetRefusal)
    clock.jump(timedelta(hours=1))
    assert isinstance(house.reserve(house.accounts("main", "ada"), Decimal(1)), Reservation)
    house.charge(house.accounts("main", "ada"), Decimal(1))
    clock.jump(timedelta(days=1))
    assert isinstance(house.reserve(house.accounts("main", "ada"), Decimal("0.1")), Reservation), "February"
    clock.jump(timedelta(days=-1))
    back = house.reserve(house.accounts("main", "ada"), Decimal(1))
    assert isinstance(back, BudgetRefusal), "a clock that was set back finds what that day has spent"


def test_what_the_books_say_counts_from_the_start() -> None:
    spent = Spent(month=Decimal(3), agents={"main": Decimal(2)}, users={"ada": Decimal(1)})
    house = budget(None, spent, user_day_usd="9", agent_day_usd="9", month_usd="9")
    assert [each.spent for each in house.accounts("main", "ada")] == [1, 2, 3]
    assert [each.spent for each in house.accounts("main", "bob")] == [0, 2, 3]


def test_nobody_is_warned_again_after_a_restart() -> None:
    house = budget(None, Spent(month=Decimal("8.5"), agents={"main": Decimal(7)}), agent_day_usd="10", month_usd="10")
    accounts = house.accounts("main", "ada")
    assert house.charge(accounts, Decimal("0.5")) == []
    assert [each.name for each in house.charge(accounts, Decimal("0.5"))] == ["agent_day_usd"]
    assert house.charge(accounts, Decimal("0.5")) == []


def test_many_peoples_accounts_are_let_go_when_their_day_is_over() -> None:
    clock = FakeClock()
    house = budget(clock, user_day_usd="1", month_usd="9")
    for number in range(10_001):
        house.charge(house.accounts("main", f"user {number}"), Decimal("0.0001"))
    clock.jump(timedelta(days=1))
    (_, month) = house.accounts("main", "ada")
    assert month.spent == Decimal("1.0001")
    assert len(house._accounts) == 2  # pyright: ignore[reportPrivateUsage]


@pytest.mark.parametrize("limit", ["-1", "NaN", "Infinity", "-0.0001"])
def test_a_limit_that_is_none_is_refused(limit: str) -> None:
    with pytest.raises(ConfigError, match=r"month_usd is .* give US dollars"):
        BudgetSettings(month_usd=Decimal(limit))


def test_no_limit_is_no_budget() -> None:
    """By default there is one, which nobody has chosen."""
    assert not BudgetSettings(agent_day_usd=None).is_set
    assert BudgetSettings(turn_usd=Decimal(0), agent_day_usd=None).is_set
    assert (BudgetSettings().agent_day_usd, BudgetSettings().is_chosen) == (3, False)
    assert BudgetSettings(agent_day_usd=Decimal(3)).is_chosen


# ── paying ──────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Shop:
    """A budget service whose turns tell what they tell into one list."""

    house: Budget
    events: list[Event] = field(default_factory=list[Event])

    def __post_init__(self) -> None:
        self.service = self.house
        self.meter = UsageMeter()

    def open_turn(self, user: str = "ada", turn: str = "t-1") -> TurnBudget:
        ids = Ids(agent="main", session="s", inbound_id="i", turn_id=turn)
        return self.service.open_turn(ids, self.events.append, user, Decimal(0), ())

    async def pay(self, request: ModelRequest, budget: TurnBudget | None = None) -> Settle:
        """As a turn does before each call."""
        size = self.meter.size(request, whole=True)
        most = most_of(request.model, size.tokens, request.max_tokens, Payer(), EPOCH)

        def measure(reported: Usage, *, begun: bool, said: str, whole: bool = True) -> Settled:
            usage = self.meter.settle(request, size, reported, begun=begun, said=said, whole=whole)
            return Settled(usage, request.model.cost(usage))

        return await (budget or self.open_turn()).pay_for(request.model, most.cost, measure)

    def held(self, user: str = "ada") -> Decimal:
        return max(each.reserved for each in self.house.accounts("main", user))


async def test_a_call_holds_the_most_it_may_cost() -> None:
    shop = Shop(budget(month_usd="100"))
    payment = await shop.pay(question("word " * 10_000, most=4_000))
    output = SONNET.output * 4_000 / 1_000_000
    assert output + Decimal("3.75") * 10_000 / 1_000_000 <= shop.held() <= output + Decimal("3.75") * 20_000 / 1_000_000
    payment(Usage(input=10_000, output=5), begun=True, said="")
    assert shop.held() == 0
    assert shop.house.accounts("main", "ada")[0].spent == Decimal("0.030075")


async def test_system_prompt_and_tools_count_and_are_counted_again_when_they_change() -> None:
    shop = Shop(budget(month_usd="100"))
    tool = ToolSpec("look", "looks " * 500, {})
    sizes = [
        shop.meter.count(question()),
        shop.meter.count(question(system="word " * 500)),
        shop.meter.count(question(system="word " * 500)),
        shop.meter.count(ModelRequest(model=PRICED, system="", messages=question().messages, tools=(tool,))),
    ]
    assert sizes[1] == sizes[2] > sizes[0] + 400
    assert sizes[3] > sizes[0] + 400
    assert shop.meter.count(question()) == sizes[0]


@pytest.mark.parametrize(
    ("reported", "begun", "spent"),
    [
        (Usage(), False, False),
        (Usage(), True, True),
        (Usage(input=1_000), True, True),
    ],
    ids=["never began", "cut without a word on usage", "reported"],
)
async def test_what_an_ended_call_cost(reported: Usage, begun: bool, spent: bool) -> None:
    """Who stops an answer halfway has used up what came of it."""
    shop = Shop(budget(month_usd="100"))
    payment = await shop.pay(question("word " * 1_000))
    usage = payment(reported, begun=begun, said="half an answer").usage
    assert (usage != Usage()) == spent
    assert shop.house.accounts("main", "ada")[0].spent == SONNET.cost(usage)
    if begun and reported == Usage():
        assert 800 <= usage.input <= 1_400
        assert 1 <= usage.output <= 10


def test_what_is_booked_never_falls_as_the_report_grows() -> None:
    meter, request = UsageMeter(), question("word " * 1_000)
    size = meter.size(request, whole=True)
    most = most_of(PRICED, size.tokens, request.max_tokens, Payer(), EPOCH)
    booked: list[Decimal] = []
    for tokens in (*range(0, 15_000, 50), 300_000, 10**19):
        settlement = CallSettlement(meter, request, size, most)
        booked.append(settlement(Usage(input=tokens, output=10), begun=True, said="", whole=True).cost)
    assert booked == sorted(booked)
    assert booked[-1] == most.cost


async def test_a_model_without_a_price_is_refused_under_a_budget() -> None:
    shop = Shop(budget(month_usd="100"))
    with pytest.raises(BudgetExceeded, match=r"declare models\.scripted/two\.input_price") as caught:
        await shop.pay(question(model=Model("scripted", "two")))
    assert caught.value.limit == ""
    assert shop.held() == 0


async def test_a_turn_has_a_limit_of_its_own() -> None:
    shop = Shop(budget(turn_usd="0.05"))
    first, second = shop.open_turn(), shop.open_turn(turn="t-2")
    (await shop.pay(question(), first))(Usage(input=12_000), begun=True, said="")
    with pytest.raises(BudgetExceeded) as caught:
        await shop.pay(question(), first)
    assert caught.value.limit == "turn_usd"
    await shop.pay(question(), second)


async def test_the_operator_is_warned_once_and_told_of_every_refusal() -> None:
    shop = Shop(budget(agent_day_usd="0.1"))
    own = shop.open_turn()
    for tokens in (20_000, 8_000, 500):
        (await shop.pay(question(most=100), own))(Usage(input=tokens), begun=True, said="")
    for _ in range(2):
        with pytest.raises(BudgetExceeded):
            await shop.pay(question(), own)
    (warned,) = (event for event in shop.events if isinstance(event, BudgetWarned))
    assert (warned.limit, warned.limit_usd, warned.spent_usd) == ("agent_day_usd", Decimal("0.1"), Decimal("0.084"))
    refused = [event for event in shop.events if isinstance(event, BudgetRefused)]
    assert [(each.model, each.spent_usd, each.turn_id) for each in refused] == [
        ("scripted/one", Decimal("0.0855"), "t-1")
    ] * 2


def test_a_call_waits_for_others_that_hold_what_it_needs() -> None:
    """Ten calls hold all there is, and cost little: nobody is told that the budget is used up while it is not."""
    clock = FakeClock()
    shop = Shop(budget(clock, agent_day_usd="0.1"))

    async def one(number: int) -> float:
        payment = await shop.pay(question(most=3_000), shop.open_turn(turn=f"t-{number}"))
        await clock.sleep(10)
        payment(Usage(input=10, output=10), begun=True, said="")
        return clock.monotonic()

    async def all_of_them() -> list[float]:
        return await asyncio.gather(*(one(number) for number in range(10)))

    ended = clock.run(all_of_them())
    assert sorted(ended) == [10.0] * 2 + [20.0] * 2 + [30.0] * 2 + [40.0] * 2 + [50.0] * 2
    assert shop.events == []


def test_whoever_is_stopped_while_waiting_holds_nothing() -> None:
    clock = FakeClock()
    shop = Shop(budget(clock, agent_day_usd="0.1"))

    async def walk() -> None:
        first = await shop.pay(question(most=5_000))
        held = shop.held()
        waiting = asyncio.create_task(shop.pay(question(most=5_000), shop.open_turn(turn="t-2")))
        await clock.sleep(1)
        assert not waiting.done()
        waiting.cancel()
        await asyncio.wait([waiting])
        assert shop.held() == held
        first(Usage(), begun=False, said="")
        assert shop.held() == 0

    clock.run(walk())


@pytest.mark.spec("CO-01")
@given(st.integers(0, 2**32), st.decimals("0.01", "2", places=3))
@settings(max_examples=examples(60), deadline=None)
def test_fifty_turns_at_once_never_overshoot(seed: int, limit: Decimal) -> None:
    """Any interleaving, any size of calls, some stopped halfway: the sum of what was paid stays within each limit."""
    dice, clock = random.Random(seed), FakeClock()
    limits: dict[str, Any] = {"agent_day_usd": str(limit), "user_day_usd": str(limit / 2), "turn_usd": str(limit / 4)}
    shop = Shop(budget(clock, **limits))
    paid: dict[str, list[Decimal]] = {}

    async def turn(number: int) -> None:
        user, budget = f"user {number % 4}", shop.open_turn(f"user {number % 4}", f"t-{number}")
        own: list[Decimal] = []
        for _ in range(dice.randint(1, 5)):
            request = question("word " * dice.randint(1, 2_000), most=dice.randint(1, 4_000))
            await clock.sleep(dice.random())
            payment = await shop.pay(request, budget)
            usage = Usage()
            try:
                await clock.sleep(dice.random() * 3)
                used = dice.randint(0, shop.meter.estimator(PRICED).correction.to_model(shop.meter.count(request)))
                usage = Usage(input=used, output=dice.randint(0, request.max_tokens))
            finally:
                cost = payment(usage, begun=usage != Usage(), said="").cost
                paid.setdefault(user, []).append(cost)
                own.append(cost)
        assert sum(own, Decimal(0)) <= limit / 4

    async def all_of_them() -> list[Any]:
        tasks = [asyncio.create_task(turn(number)) for number in range(50)]
        for task in dice.sample(tasks, 10):
            asyncio.get_running_loop().call_later(dice.random() * 8, task.cancel)
        return await asyncio.gather(*tasks, return_exceptions=True)

    ends = clock.run(all_of_them())
    strange = [end for end in ends if not isinstance(end, BudgetExceeded | asyncio.CancelledError | None)]
    assert strange == []
    total = sum((cost for costs in paid.values() for cost in costs), Decimal(0))
    assert total <= limit
    assert all(sum(costs, Decimal(0)) <= limit / 2 for costs in paid.values())
    for user, costs in paid.items():
        mine, everybody = shop.house.accounts("main", user)
        assert (mine.spent, mine.reserved) == (sum(costs, Decimal(0)), 0)
        assert (everybody.spent, everybody.reserved) == (total, 0)
