"""Models with prices, answers that cost ten cents, and limits on what may be spent."""

from decimal import Decimal

from tests.walks.house import Gateway

from finclaw.agent.budget.settings import BudgetSettings
from finclaw.agent.settings import AgentSettings
from finclaw.kernel.chunk import Usage
from finclaw.kernel.event import BudgetRefused
from finclaw.testing import Reply, reply

SONNET = AgentSettings(model="anthropic/claude-sonnet-4-6", max_tokens=6_100)
"""3 dollars for a million tokens in, 15 out; a question in these walks may cost some 11 cents."""
TEN_CENTS = Usage(input=3_000, output=6_066, cache_read=33)
COST = Decimal("0.0999999")


def limit(**limits: str) -> BudgetSettings:
    return BudgetSettings(**{name: Decimal(given) for name, given in limits.items()})


def answer(text: str = "fine") -> Reply:
    return reply(text, usage=TEN_CENTS)


def refusals(gateway: Gateway) -> list[BudgetRefused]:
    return [event for event in gateway.events if isinstance(event, BudgetRefused)]
