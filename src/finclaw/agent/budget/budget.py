"""The budget: each call is reserved at the most it may cost before it is made, and settled at what it did cost.

One object for the whole process, and nothing waits between a look and a reservation: calls side by side cannot all
take the same last dollar. Days and months are those of the machine's zone.
"""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from functools import partial
from typing import Final, Literal

from msgspec import Struct

from finclaw.agent.budget.call_ledger import Settle, Settled
from finclaw.agent.budget.settings import BudgetSettings
from finclaw.clock import local_day
from finclaw.errors import BudgetExceeded, ConfigError
from finclaw.kernel.chunk import Model, Usage
from finclaw.kernel.event import BudgetRefused, BudgetWarned, Emit
from finclaw.kernel.port import Clock
from finclaw.kernel.record import Cost, Spend
from finclaw.kernel.scope import Ids
from finclaw.kernel.store_port import Store

LimitName = Literal["turn_usd", "user_day_usd", "agent_day_usd", "month_usd"]

WARN_AT: Final = Decimal("0.8")
_MANY: Final = 10_000  # accounts; then those of other days are dropped, not sooner


class Spent(Struct, frozen=True, kw_only=True):
    """Spend of this month, and of today by agent and user, as the books have it when the process starts."""

    month: Decimal = Decimal(0)
    agents: Mapping[str, Decimal] = {}
    users: Mapping[str, Decimal] = {}


class Account(Struct):
    name: LimitName
    limit: Decimal
    spent: Decimal = Decimal(0)
    reserved: Decimal = Decimal(0)  # what calls that are under way may cost at most
    warned: bool = False

    def __post_init__(self) -> None:
        self.warned = self.nearly_full  # whoever spent it was told

    @property
    def nearly_full(self) -> bool:
        return self.spent >= self.limit * WARN_AT


class BudgetRefusal(Struct, frozen=True, kw_only=True):
    """`passing`: there will be room again if calls that are under way cost less than they may."""

    name: LimitName
    limit: Decimal
    spent: Decimal
    needed: Decimal
    passing: bool

    def __str__(self) -> str:
        return (
            f"a call that may cost ${_format_amount(self.needed)} does not fit: ${_format_amount(self.spent)} of the "
            f"${_format_amount(self.limit)} of budget.{self.name} are spent"
        )


class Reservation(Struct, eq=False):
    accounts: Sequence[Account]
    amount: Decimal
    settled: bool = False


class Budget:
    def __init__(self, limits: BudgetSettings, clock: Clock, spent: Spent | None = None) -> None:
        self.limits = limits
        self._clock = clock
        self._accounts: dict[tuple[LimitName, date, str], Account] = {}
        self._waiting: list[Callable[[], None]] = []
        before = spent or Spent()
        today = self.today()
        self._page = today
        self._open("month_usd", today.replace(day=1), "", before.month)
        for agent, cost in before.agents.items():
            self._open("agent_day_usd", today, agent, cost)
        for user, cost in before.users.items():
            self._open("user_day_usd", today, user, cost)

    def today(self) -> date:
        return local_day(self._clock.now())

    def accounts(self, agent: str, user: str, day: date | None = None) -> list[Account]:
        """The accounts that a call on this day counts against, but for the turn's own."""
        day = day or self.today()
        if day != self._page:
            self._page = day
            if len(self._accounts) >= _MANY:
                current = (day, day.replace(day=1))
                self._accounts = {key: each for key, each in self._accounts.items() if key[1] in current}
        wanted = (
            self._open("user_day_usd", day, user),
            self._open("agent_day_usd", day, agent),
            self._open("month_usd", day.replace(day=1), ""),
        )
        return [account for account in wanted if account is not None]

    def _open(self, name: LimitName, day: date, whose: str, spent: Decimal = Decimal(0)) -> Account | None:
        limit: Decimal | None = getattr(self.limits, name)
        if limit is None:
            return None
        key = (name, day, whose)
        if key not in self._accounts:
            self._accounts[key] = Account(name, limit, spent)
        return self._accounts[key]

    def reserve(self, accounts: Sequence[Account], amount: Decimal) -> Reservation | BudgetRefusal:
        """What costs nothing always fits."""
        refusals = [_refusal(each, amount) for each in accounts if each.spent + each.reserved + amount > each.limit]
        if amount > 0 and refusals:
            return min(refusals, key=lambda refusal: refusal.passing)  # one that stays says more
        for account in accounts:
            account.reserved += amount
        return Reservation(accounts, amount)

    def settle(self, reservation: Reservation, cost: Decimal) -> list[Account]:
        """Exactly once; a second time changes nothing. Gives the accounts that are nearly full since just now."""
        if reservation.settled:
            return []
        reservation.settled = True
        for account in reservation.accounts:
            account.reserved -= reservation.amount
        waiting = self._waiting
        self._waiting = []
        crossed = self.charge(reservation.accounts, cost)
        for tell in waiting:
            tell()
        return crossed

    def charge(self, accounts: Sequence[Account], cost: Decimal) -> list[Account]:
        """Count in what was spent without a reservation, too: by a turn before the crash that it has survived."""
        cost = max(cost, Decimal(0))  # a server that reports less than nothing gives nothing back
        for account in accounts:
            account.spent += cost
        crossed = [each for each in accounts if each.nearly_full and not each.warned and cost]
        for account in crossed:
            account.warned = True
        return crossed

    def when_settled(self, tell: Callable[[], None]) -> None:
        self._waiting.append(tell)

    def has_room(self, agent: str, user: str, amount: Decimal) -> bool:
        accounts = self.accounts(agent, user)
        return not amount or all(each.spent + each.reserved + amount <= each.limit for each in accounts)

    def open_turn(self, ids: Ids, emit: Emit, user: str, before: Decimal, unbooked: Iterable[Spend]) -> "TurnBudget":
        """`before` is what the turn had spent before it was taken up again; `unbooked` what the books lack of it."""
        own: list[Account] = []
        if self.limits.turn_usd is not None:
            own.append(Account("turn_usd", self.limits.turn_usd))
        turn_budget = TurnBudget(self, own, ids, emit, user)
        self.charge(own, before)
        for line in unbooked:
            accounts = self.accounts(line.agent, line.user, line.day)
            turn_budget.tell_warnings(self.charge(accounts, line.cost))
        return turn_budget


def _refusal(account: Account, amount: Decimal) -> BudgetRefusal:
    fits_later = account.spent + amount <= account.limit
    return BudgetRefusal(name=account.name, limit=account.limit, spent=account.spent, needed=amount, passing=fits_later)


def _format_amount(amount: Decimal) -> str:
    return f"{amount.normalize():f}"


async def open_budget(limits: BudgetSettings, models: Iterable[Model], store: Store, clock: Clock) -> Budget | None:
    """None where there is no limit. Raises ConfigError for a model without a price under a limit that was chosen."""
    must_have_prices(limits, models)
    if not limits.is_set:
        return None
    return Budget(limits, clock, await _spent_so_far(limits, store, clock))


def must_have_prices(limits: BudgetSettings, models: Iterable[Model]) -> None:
    """Where somebody has chosen a limit: nobody could keep it. Raises ConfigError."""
    unpriced = next((model for model in models if not model.priced), None)
    if limits.is_chosen and unpriced is not None:
        raise ConfigError(f"there is a budget, but {say_unpriced(unpriced)}; or set no limit under `budget`")


async def _spent_so_far(limits: BudgetSettings, store: Store, clock: Clock) -> Spent:
    today = local_day(clock.now())
    month: Sequence[Cost] = ()
    agents: Sequence[Cost] = ()
    users: Sequence[Cost] = ()
    if limits.month_usd is not None:
        month = await store.costs(today.replace(day=1), "agent")
    if limits.agent_day_usd is not None:
        agents = await store.costs(today, "agent")
    if limits.user_day_usd is not None:
        users = await store.costs(today, "user")
    return Spent(
        month=sum((each.cost for each in month), Decimal(0)),
        agents={each.name: each.cost for each in agents},
        users={each.name: each.cost for each in users},
    )


class TurnBudget:
    """The budget of one turn. What is reserved is given back on every way out: whoever pays, settles."""

    def __init__(self, budget: Budget, own: list[Account], ids: Ids, emit: Emit, user: str) -> None:
        self._budget = budget
        self._own = own
        self._ids = ids
        self._emit = emit
        self._user = user

    async def pay_for(self, model: Model, amount: Decimal, measure: Settle) -> Settle:
        """Wait while other calls hold what this one needs. `measure` says what was used. Raises BudgetExceeded."""
        if model.price is None and self._budget.limits.is_chosen:
            raise BudgetExceeded(f"{say_unpriced(model)}; until then it is not asked under a budget")
        while True:
            accounts = [*self._own, *self._budget.accounts(self._ids["agent"], self._user)]
            match self._budget.reserve(accounts, amount):
                case Reservation() as reservation:
                    return partial(self._settle, reservation, measure)
                case BudgetRefusal(passing=True):
                    settled = asyncio.Event()
                    self._budget.when_settled(settled.set)
                    await settled.wait()
                case refusal:
                    told = {"limit_usd": refusal.limit, "spent_usd": refusal.spent, "needed_usd": refusal.needed}
                    self._emit(BudgetRefused(model=model.id, limit=refusal.name, **told, **self._ids))
                    raise BudgetExceeded(str(refusal), limit=refusal.name)

    def _settle(
        self, reservation: Reservation, measure: Settle, reported: Usage, *, begun: bool, said: str, whole: bool = True
    ) -> Settled:
        settled = measure(reported, begun=begun, said=said, whole=whole)
        self.tell_warnings(self._budget.settle(reservation, settled.cost))
        return settled

    def tell_warnings(self, crossed: Iterable[Account]) -> None:
        for account in crossed:
            if account.name != "turn_usd":  # a turn ends soon enough by itself
                self._emit(
                    BudgetWarned(limit=account.name, limit_usd=account.limit, spent_usd=account.spent, **self._ids)
                )


def say_unpriced(model: Model) -> str:
    name = model.id
    return f"no price is known of {name}; declare models.{name}.input_price and models.{name}.output_price"
