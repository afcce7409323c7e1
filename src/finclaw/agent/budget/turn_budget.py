"""The budget of one turn: before each model call the most it may cost is reserved, or the call is refused."""

import asyncio
from collections.abc import Iterable
from decimal import Decimal

from finclaw.agent.budget.budget import Account, Budget, BudgetRefusal, Reservation, Spent
from finclaw.agent.budget.settings import BudgetSettings
from finclaw.agent.budget.usage_meter import Settle, Settled
from finclaw.clock import local_day
from finclaw.errors import BudgetExceeded, ConfigError
from finclaw.kernel.chunk import Model, Usage
from finclaw.kernel.event import BudgetRefused, BudgetWarned, Emit
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Spend
from finclaw.kernel.scope import Ids
from finclaw.kernel.store_port import Store


async def open_budget(
    limits: BudgetSettings, models: Iterable[Model], store: Store, clock: Clock
) -> "BudgetService | None":
    """None where there is no limit. Raises ConfigError for a model without a price under a limit that was chosen."""
    must_have_prices(limits, models)
    if not limits.is_set:
        return None
    return BudgetService(Budget(limits, clock, await _spent_so_far(limits, store, clock)))


def must_have_prices(limits: BudgetSettings, models: Iterable[Model]) -> None:
    """Where somebody has chosen a limit: nobody could keep it. Raises ConfigError."""
    unpriced = next((model for model in models if not model.priced), None)
    if limits.is_chosen and unpriced is not None:
        raise ConfigError(f"there is a budget, but {say_unpriced(unpriced)}; or set no limit under `budget`")


async def _spent_so_far(limits: BudgetSettings, store: Store, clock: Clock) -> Spent:
    """Today and this month, by the books; only what a limit asks for is read."""
    today = local_day(clock.now())
    month = await store.costs(today.replace(day=1), "agent") if limits.month_usd is not None else ()
    agents = await store.costs(today, "agent") if limits.agent_day_usd is not None else ()
    users = await store.costs(today, "user") if limits.user_day_usd is not None else ()
    return Spent(
        month=sum((each.cost for each in month), Decimal(0)),
        agents={each.name: each.cost for each in agents},
        users={each.name: each.cost for each in users},
    )


class BudgetService:
    """The process-wide budget. It opens a turn budget for each turn."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget

    def has_room(self, agent: str, user: str, amount: Decimal) -> bool:
        """Whether a call that may cost so much would be let through now, as far as days and months go."""
        accounts = self.budget.accounts(agent, user)
        return not amount or all(each.spent + each.reserved + amount <= each.limit for each in accounts)

    def open_turn(self, ids: Ids, emit: Emit, user: str, before: Decimal, unbooked: Iterable[Spend]) -> "TurnBudget":
        """`before` is what the turn had spent before it was taken up again; `unbooked` what the books lack of it."""
        turn = self.budget.limits.turn_usd
        own = [] if turn is None else [Account("turn_usd", turn)]
        turn_budget = TurnBudget(self, own, ids, emit, user)
        self.budget.charge(own, before)
        for each in unbooked:
            accounts = self.budget.accounts(each.agent, each.user, each.day)
            turn_budget.tell_warnings(self.budget.charge(accounts, each.cost))
        return turn_budget


class TurnBudget:
    """The budget of one turn. What is reserved is given back on every way out: whoever pays, settles."""

    def __init__(self, service: BudgetService, own: list[Account], ids: Ids, emit: Emit, user: str) -> None:
        self._budget = service.budget
        self._own = own
        self._ids = ids
        self._emit = emit
        self._user = user

    async def pay_for(self, model: Model, amount: Decimal, measure: Settle) -> "Payment":
        """Raises BudgetExceeded. While other calls hold what this one needs, it waits for them to be settled.

        `amount` is the most that it may cost; `measure` says afterwards what it has used.
        """
        if model.price is None and self._budget.limits.is_chosen:
            raise BudgetExceeded(f"{say_unpriced(model)}; until then it is not asked under a budget")
        while True:
            accounts = [*self._own, *self._budget.accounts(self._ids["agent"], self._user)]
            match self._budget.reserve(accounts, amount):
                case Reservation() as reservation:
                    return Payment(self, reservation, measure)
                case BudgetRefusal(passing=True):
                    await self._next_settlement()
                case refusal:
                    self._tell_refusal(model, refusal)
                    raise BudgetExceeded(str(refusal), limit=refusal.name)

    def settle(self, reservation: Reservation, cost: Decimal) -> None:
        self.tell_warnings(self._budget.settle(reservation, cost))

    async def _next_settlement(self) -> None:
        settled = asyncio.Event()
        self._budget.when_settled(settled.set)
        await settled.wait()

    def _tell_refusal(self, model: Model, refusal: BudgetRefusal) -> None:
        self._emit(
            BudgetRefused(
                model=model.id,
                limit=refusal.name,
                limit_usd=refusal.limit,
                spent_usd=refusal.spent,
                needed_usd=refusal.needed,
                **self._ids,
            )
        )

    def tell_warnings(self, crossed: Iterable[Account]) -> None:
        for account in crossed:
            if account.name != "turn_usd":  # a turn ends soon enough by itself
                self._emit(
                    BudgetWarned(limit=account.name, limit_usd=account.limit, spent_usd=account.spent, **self._ids)
                )


class Payment:
    """The payment for one call that is under way."""

    def __init__(self, turn_budget: TurnBudget, reservation: Reservation, measure: Settle) -> None:
        self._turn_budget = turn_budget
        self._reservation = reservation
        self._measure = measure

    def settle(self, reported: Usage, *, begun: bool, said: str, whole: bool = True) -> Settled:
        """What the call has used, by the meter."""
        settled = self._measure(reported, begun=begun, said=said, whole=whole)
        self._turn_budget.settle(self._reservation, settled.cost)
        return settled


def say_unpriced(model: Model) -> str:
    name = model.id
    return f"no price is known of {name}; declare models.{name}.input_price and models.{name}.output_price"
