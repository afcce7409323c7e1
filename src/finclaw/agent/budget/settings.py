"""The settings of the budget: what may be spent on models."""

from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Final

from finclaw.errors import ConfigError

DEFAULT_AGENT_DAY_USD: Final = Decimal(3)
"""This very object: the same amount in a settings file is a limit that somebody has chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BudgetSettings:
    """What may be spent on models, in US dollars: null for no limit, 0 to spend nothing."""

    turn_usd: Decimal | None = None
    """The most that one turn may cost."""
    user_day_usd: Decimal | None = None
    """The most that one person's turns may cost in a day; days begin at midnight in the zone of the machine (`TZ`)."""
    agent_day_usd: Decimal | None = DEFAULT_AGENT_DAY_USD
    """The most that the agent may cost in a day, whoever asks. The only limit that is there unless it is lifted."""
    month_usd: Decimal | None = None
    """The most that everything together may cost in a calendar month."""

    def __post_init__(self) -> None:
        for each in fields(self):
            limit: Decimal | None = getattr(self, each.name)
            if limit is not None and not (limit.is_finite() and limit >= 0):
                raise ConfigError(f"{each.name} is {limit}; give US dollars, 0 or more, or null for no limit")

    @property
    def is_set(self) -> bool:
        return any(limit is not None for limit in self._limits())

    @property
    def is_chosen(self) -> bool:
        """Whether somebody has set a limit. One that is only there by default must not keep anybody from starting."""
        return any(limit is not None and limit is not DEFAULT_AGENT_DAY_USD for limit in self._limits())

    def _limits(self) -> tuple[Decimal | None, ...]:
        return (self.turn_usd, self.user_day_usd, self.agent_day_usd, self.month_usd)
