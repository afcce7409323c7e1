"""A turn's lines in the books, told from its log: what happened before a crash is there too, and nothing twice."""

from collections.abc import Sequence
from datetime import date
from decimal import Decimal

from msgspec.structs import replace

from finclaw.agent.log import TurnLog
from finclaw.agent.paid import Paid, from_metadata
from finclaw.kernel.chunk import Usage
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.record import Spend


def user_of(inbound: Inbound) -> str:
    """Whose money it is. A helper's turn is paid for by the person for whom it was begun."""
    delegated = inbound.limits is not None and inbound.limits.pool == "subagent"
    return f"{inbound.account if delegated else inbound.channel}:{inbound.sender.id}"


def calls_of(log: TurnLog) -> Sequence[Paid]:
    """Every call that was paid for, whatever came of it."""
    log.paid += map(from_metadata, log.answers[len(log.paid) :])
    return (*log.paid, *log.beside)


def usage_so_far(log: TurnLog) -> Usage:
    return sum((each.usage for each in calls_of(log)), Usage())


def cost_so_far(log: TurnLog) -> Decimal:
    """Each call at the price of its model."""
    return sum((each.cost for each in calls_of(log)), Decimal(0))


def spend_of(log: TurnLog, agent: str, user: str) -> tuple[Spend, ...]:
    lines: dict[tuple[date, str], Spend] = {}
    for paid in calls_of(log):
        key = (paid.day, paid.model)
        line = Spend(
            day=paid.day,
            agent=agent,
            user=user,
            model=paid.model,
            calls=1,
            usage=paid.usage,
            cost=paid.cost,
            saved=paid.saved,
        )
        former = lines.get(key)
        lines[key] = line if former is None else _plus(former, line)
    return tuple(lines.values())


def _plus(line: Spend, more: Spend) -> Spend:
    return replace(
        line,
        calls=line.calls + more.calls,
        usage=line.usage + more.usage,
        cost=line.cost + more.cost,
        saved=line.saved + more.saved,
    )
