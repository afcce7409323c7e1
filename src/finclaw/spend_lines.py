"""Sums over lines of spend: merged by day, agent, user and model; marked as interrupted; the day so far."""

from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal

from msgspec.structs import replace

from finclaw.clock import local_day
from finclaw.kernel.record import Cost, CostsBy, Spend, Today
from finclaw.kernel.store_port import Store


def merge_lines(lines: Iterable[Spend]) -> tuple[Spend, ...]:
    """One line for each day, agent, user and model, in the order in which they first came."""
    merged: dict[tuple[date, str, str, str], Spend] = {}
    for line in lines:
        key = (line.day, line.agent, line.user, line.model)
        former = merged.get(key)
        merged[key] = line if former is None else _add(former, line)
    return tuple(merged.values())


async def sum_costs(store: Store, now: datetime, days: int, by: CostsBy) -> Sequence[Cost]:
    return await store.costs(local_day(now) - timedelta(days=days - 1), by)


async def sum_today(store: Store, now: datetime, agent: str, limit: Decimal | None) -> Today:
    agents = await store.costs(local_day(now), "agent")
    spent = sum((cost.cost for cost in agents if cost.name == agent), Decimal(0))
    zone = now.astimezone().tzname() or "local time"
    return Today(day=local_day(now), zone=zone, cost=spent, agent_day_usd=limit)


def mark_interrupted(line: Spend) -> Spend:
    return replace(line, interrupted=line.calls, interrupted_cost=line.cost)


def _add(line: Spend, more: Spend) -> Spend:
    return replace(
        line,
        calls=line.calls + more.calls,
        usage=line.usage + more.usage,
        cost=line.cost + more.cost,
        saved=line.saved + more.saved,
        interrupted=line.interrupted + more.interrupted,
        interrupted_cost=line.interrupted_cost + more.interrupted_cost,
        overstated=line.overstated + more.overstated,
    )
