"""A turn's lines in the books, told from its log: what happened before a crash is there too, and nothing twice."""

from collections.abc import Sequence
from decimal import Decimal

from finclaw.agent.call_ledger import Payer, lines_of
from finclaw.agent.log import TurnLog
from finclaw.agent.paid import Paid, from_metadata, measured_size
from finclaw.agent.tokens import characters_of
from finclaw.kernel.chunk import Usage
from finclaw.kernel.envelope import Inbound
from finclaw.kernel.record import Spend


def user_of(inbound: Inbound) -> str:
    """Whose money it is. A helper's turn is paid for by the person for whom it was begun."""
    delegated = inbound.limits is not None and inbound.limits.pool == "subagent"
    return f"{inbound.account if delegated else inbound.channel}:{inbound.sender.id}"


def calls_of(log: TurnLog) -> Sequence[Paid]:
    """Every call that was paid for, whatever came of it; but for those of earlier processes that gave no answer."""
    log.paid += map(from_metadata, log.answers[len(log.paid) :])
    return (*log.paid, *log.beside)


def usage_so_far(log: TurnLog) -> Usage:
    return sum((each.usage for each in (*calls_of(log), *log.ledger.before)), Usage())


def cost_so_far(log: TurnLog) -> Decimal:
    """Each call at the price of its model."""
    return sum((each.cost for each in (*calls_of(log), *log.ledger.before)), Decimal(0))


def context_tokens(log: TurnLog) -> int:
    """The size of the conversation behind this turn, as its model measured it; what nobody measured is estimated."""
    since = 0
    for message in reversed(log.messages):
        if measured := measured_size(message):
            return measured + since
        since += characters_of(message)
    return log.claim.context + since


def spend_of(log: TurnLog, agent: str, user: str) -> tuple[Spend, ...]:
    """What this process has paid for, in lines of the books."""
    return lines_of(log.ledger.settled, Payer(agent, user))
