"""A turn's lines in the books, told from its log: what happened before a crash is there too, and nothing twice."""

from collections.abc import Sequence
from decimal import Decimal

from finclaw.agent.budget.call_ledger import Payer, lines_of
from finclaw.agent.budget.spend import CallCost, from_metadata
from finclaw.agent.turn_log import TurnLog
from finclaw.kernel.chunk import Usage
from finclaw.kernel.record import Spend


def calls_of(log: TurnLog) -> Sequence[CallCost]:
    """Every call that was paid for, whatever came of it; but for those of earlier processes that gave no answer."""
    log.answer_costs += map(from_metadata, log.answers[len(log.answer_costs) :])
    return (*log.answer_costs, *log.side_costs)


def usage_so_far(log: TurnLog) -> Usage:
    return sum((each.usage for each in (*calls_of(log), *log.ledger.before)), Usage())


def cost_so_far(log: TurnLog) -> Decimal:
    """Each call at the price of its model."""
    return sum((each.cost for each in (*calls_of(log), *log.ledger.before)), Decimal(0))


def spend_of(log: TurnLog, agent: str, user: str) -> tuple[Spend, ...]:
    """What this process has paid for, in lines of the books."""
    return lines_of(log.ledger.settled, Payer(agent, user))
