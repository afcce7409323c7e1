"""The budget: each call is reserved at the most it may cost before it is made, and settled at what it did cost.

One object for the whole process, and nothing waits between a look and a reservation: calls side by side cannot all
take the same last dollar. Days and months are those of the machine's zone.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import date
from decimal import Decimal
from typing import Final, Literal

from msgspec import Struct

from finclaw.agent.budget.settings import BudgetSettings
from finclaw.clock import local_day
from finclaw.kernel.port import Clock

LimitName = Literal["turn_usd", "user_day_usd", "agent_day_usd", "month_usd"]

WARN_AT: Final = Decimal("0.8")
_MANY: Final = 10_000
"""Accounts. Then those of other days are let go; until then a clock that jumps and comes back finds them."""


class Spent(Struct, frozen=True, kw_only=True):
    """Spend as the books have it when the process starts."""

    month: Decimal = Decimal(0)
    agents: Mapping[str, Decimal] = {}
    """Today."""
    users: Mapping[str, Decimal] = {}
    """Today."""


class Account(Struct):
    """An account of what counts against one limit: of a turn, of a person's day, of the agent's, of a month."""

    name: LimitName
    limit: Decimal
    spent: Decimal = Decimal(0)
    reserved: Decimal = Decimal(0)
    """What calls that are under way may cost at most."""
    warned: bool = False

    def __post_init__(self) -> None:
        self.warned = self.nearly_full  # whoever spent it was told

    @property
    def nearly_full(self) -> bool:
        return self.spent >= self.limit * WARN_AT


class BudgetRefusal(Struct, frozen=True, kw_only=True):
    """A refusal for lack of budget.

    `passing`: there will be room again if calls that are under way cost less than they may.
    """

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
    """A reservation of money for one call."""

    accounts: Sequence[Account]
    amount: Decimal
    settled: bool = False


class Budget:
    """The budget of the whole process."""

    def __init__(self, limits: BudgetSettings, clock: Clock, spent: Spent | None = None) -> None:
        self.limits = limits
        self._clock = clock
        self._accounts: dict[tuple[LimitName, date, str], Account] = {}
        self._waiting: list[Callable[[], None]] = []
        before, today = spent or Spent(), self.today()
        self._page = today
        self._open("month_usd", today.replace(day=1), "", before.month)
        for agent, cost in before.agents.items():
            self._open("agent_day_usd", today, agent, cost)
        for user, cost in before.users.items():
            self._open("user_day_usd", today, user, cost)

    def today(self) -> date:
        return local_day(self._clock.now())

    def accounts(self, agent: str, user: str, day: date | None = None) -> list[Account]:
        """Those that a call on this day counts against; the turn's own is the turn's to keep."""
        day = day or self.today()
        if day != self._page:
            self._turn_page(day)
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

    def _turn_page(self, day: date) -> None:
        self._page = day
        if len(self._accounts) >= _MANY:
            current = (day, day.replace(day=1))
            self._accounts = {key: each for key, each in self._accounts.items() if key[1] in current}

    # ── reserve, settle ─────────────────────────────────────────────────────────────────────────────────────

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
        told, self._waiting = self._waiting, []
        crossed = self.charge(reservation.accounts, cost)
        for tell in told:
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
        """Called once, after the next settlement."""
        self._waiting.append(tell)


def _refusal(account: Account, amount: Decimal) -> BudgetRefusal:
    fits_later = account.spent + amount <= account.limit
    return BudgetRefusal(name=account.name, limit=account.limit, spent=account.spent, needed=amount, passing=fits_later)


def _format_amount(amount: Decimal) -> str:
    return f"{amount.normalize():f}"
