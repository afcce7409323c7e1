"""The ECB's reference rates, one a business day, from Frankfurter or the bank. Others are crosses of the euro."""

import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Final

from msgspec import Struct, field

from finclaw.finance.instrument import Instrument
from finclaw.finance.market_data import errors
from finclaw.finance.market_data.port import ExchangeRate
from finclaw.finance.market_data.source import DataKind, DataSource, SourceClient
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.finance.sources.reading import Number, read_day, read_number

_PUBLISHED: Final = time(15, 0, tzinfo=UTC)  # about 16:00 in Frankfurt
_DAY: Final = re.compile(r"<Cube time=['\"](\d{4}-\d{2}-\d{2})['\"]\s*>")
_RATE: Final = re.compile(r"<Cube currency=['\"]([A-Z]{3})['\"] rate=['\"]([\d.]{1,20})['\"]\s*/>")
_DIGITS: Final = Decimal("0.000001")


class _Row(Struct, kw_only=True):
    day: date = field(name="date")
    base: str
    quote: str
    rate: Number


class Frankfurter(DataSource):
    """Frankfurter, asked for the ECB alone: without that it blends some sixty central banks."""

    info = SOURCES["frankfurter"]
    kinds = ("fixing",)

    async def read_fixing(self, client: SourceClient, base: str, quote: str) -> ExchangeRate:
        query = {"base": base, "quotes": quote, "providers": "ECB"}
        rows = [row for row in await client.get(list[_Row], "rates", query) if row.quote == quote]
        if not rows:
            raise errors.DataEmpty(f"has no rate of {base}/{quote}")
        latest = max(rows, key=lambda row: row.day)
        if latest.base != base:
            raise errors.DataMalformed(f"gave {latest.base} for {base}")
        return _fixing(client, base, quote, read_number(latest.rate, "a rate"), latest.day)


class EuropeanCentralBank(DataSource):
    """The bank's own file. It is small and always the same, so that it is read by its lines and not as XML."""

    info = SOURCES["ecb"]

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        return kind == "fixing" and instrument.kind == "rate"

    async def read_fixing(self, client: SourceClient, base: str, quote: str) -> ExchangeRate:
        text = (await client.get_body("eurofxref-daily.xml")).decode("utf-8", "replace")
        days = _DAY.findall(text)
        rates = dict(_RATE.findall(text))
        if len(days) != 1 or not rates:
            raise errors.DataMalformed("answered what is not its daily file")
        if {base, quote} - {"EUR", *rates}:
            raise errors.DataUnsupported(f"has no rate of {base}/{quote}")
        per_euro = {code: read_number(each, "a rate") for code, each in rates.items()}
        per_euro["EUR"] = Decimal(1)
        if not per_euro[base] or not per_euro[quote]:
            raise errors.DataMalformed("gave a rate of zero")
        rate = (per_euro[quote] / per_euro[base]).quantize(_DIGITS)
        return _fixing(client, base, quote, rate, read_day(days[0], "%Y-%m-%d"))


def _fixing(client: SourceClient, base: str, quote: str, rate: Decimal, day: date) -> ExchangeRate:
    return ExchangeRate(
        base=base,
        quote=quote,
        rate=rate,
        basis="fixing",
        day=day,
        as_of=min(datetime.combine(day, _PUBLISHED), client.now()),
        source=client.name,
    )
