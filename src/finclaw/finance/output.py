"""Output of the finance tools: records of plain lines for the model, facts for the figures.

A record is a run of `key: value` lines; a blank line ends it. A moment is a fact too: seconds since 1970 with the
unit "unix", for opening hours and holidays are figures that must not be invented either.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from decimal import Decimal

from finclaw.finance.instrument import Instrument
from finclaw.finance.venue import VENUES
from finclaw.kernel.calendar import Opening
from finclaw.kernel.fact import Fact

UNIX = "unix"
USER = "user"
"""The source of a figure that the person gave: repeated, never vouched for."""
CALENDAR_SOURCE = "FinClaw market calendar"
"""The source of opening hours and holidays, for the demo market too: they come from our tables and not from a feed."""


def record(lines: Mapping[str, object]) -> str:
    return "\n".join(f"{key}: {value}" for key, value in lines.items() if value is not None)


def identity(instrument: Instrument) -> dict[str, object]:
    """The lines every record about an instrument begins with."""
    return {
        "symbol": instrument.symbol,
        "name": instrument.name_en,
        "name_ko": instrument.name_ko,
        "exchange": instrument.exchange,
        "zone": VENUES[instrument.exchange].zone,
        "currency": instrument.currency,
        "kind": instrument.kind,
    }


def price_fact(instrument: Instrument, field: str, value: Decimal, as_of: datetime, source: str) -> Fact:
    """A price of it, or a difference of two. An index is counted in points: nobody can pay it."""
    points = instrument.kind == "index"
    return Fact(
        subject=instrument.symbol,
        field=field,
        value=value,
        unit="points" if points else "",
        currency=None if points else instrument.currency,
        as_of=as_of,
        source=source,
    )


def plain_fact(subject: str, field: str, value: Decimal, unit: str, as_of: datetime, source: str) -> Fact:
    """A figure that is no money: a percentage, a number of pieces."""
    return Fact(subject=subject, field=field, value=value, unit=unit, as_of=as_of, source=source)


def state(opening: Opening) -> str:
    """`open`, or `closed` with the reason."""
    if opening.is_open:
        return "open"
    return f"closed ({opening.holiday.name if opening.holiday else opening.reason.replace('_', ' ')})"


def minute(moment: datetime) -> str:
    return moment.astimezone(UTC).isoformat(timespec="minutes")


def money(value: Decimal, currency: str) -> Decimal:
    """To the smallest coin people write: none for won and yen, cents for the rest."""
    return value.quantize(Decimal(1) if currency in ("KRW", "JPY") else Decimal("0.01"))


def moment_fact(subject: str, field: str, moment: datetime, as_of: datetime, source: str) -> Fact:
    seconds = Decimal(int(moment.timestamp()))
    return Fact(subject=subject, field=field, value=seconds, unit=UNIX, as_of=as_of, source=source)
