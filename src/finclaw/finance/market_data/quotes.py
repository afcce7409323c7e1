"""Quotes through a chain of sources: each answer is checked, the next source is asked where one fails.

One source's word is not enough for a move that would be rare, nor for an instrument that was never priced before: a
source that has changed its unit looks right by itself. Then the next source of the chain is asked too.
"""

import asyncio
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from msgspec import Struct, field
from msgspec.structs import replace

from finclaw.finance.instrument import Instrument
from finclaw.finance.market import Quote
from finclaw.finance.market_data import errors, plausible
from finclaw.finance.market_data.plausible import PriceAnswer, PriceReading
from finclaw.finance.market_data.port import Purpose
from finclaw.finance.market_data.source import DataSource
from finclaw.finance.market_data.source_access import SourceAccess
from finclaw.kernel.extension import Database, Transaction

_SAMPLE: Final = 5
"""Of many instruments that were never priced before, so many are compared with a second source."""
_SAME_UNIT: Final = Decimal("0.30")  # how near two sources are when they count in the same unit
_OTHER_UNIT: Final = 5


class _Search(Struct):
    instrument: Instrument
    causes: list[errors.DataError] = field(default_factory=list[errors.DataError])
    reading: PriceReading | None = None
    is_confirmed: bool = True
    is_disputed: bool = False
    """Two sources differ, or the only word is one that cannot be right: nobody else is asked."""


class QuoteReader:
    def __init__(self, access: SourceAccess, last_prices: "LastPrices") -> None:
        self._access = access
        self._last_prices = last_prices

    async def read(self, instruments: Sequence[Instrument], purpose: Purpose) -> Mapping[str, Quote | errors.DataError]:
        await self._last_prices.load()
        groups: dict[tuple[DataSource, ...], list[_Search]] = {}
        for each in instruments:
            groups.setdefault(self._access.chain(each, "quote"), []).append(_Search(each))
        await asyncio.gather(*(self._search(chain, group, purpose) for chain, group in groups.items()))
        searches = [each for group in groups.values() for each in group]
        answers = {each.instrument.symbol: self._answer(each) for each in searches}
        believed = {
            symbol: (quote.price, quote.as_of)
            for symbol, quote in answers.items()
            if isinstance(quote, Quote) and (quote.is_confirmed or self._last_price(quote.instrument) is None)
        }
        await self._last_prices.remember(believed)
        return answers

    def _last_price(self, instrument: Instrument) -> Decimal | None:
        return self._last_prices.find(instrument.symbol)

    def _answer(self, search: _Search) -> Quote | errors.DataError:
        if search.reading is not None:
            return plausible.accept_reading(
                search.reading,
                self._access.calendar,
                self._access.clock.now(),
                is_confirmed=search.is_confirmed,
                failed=errors.name_failures(search.causes),
            )
        symbol = search.instrument.symbol
        if not search.causes:
            return errors.DataUnsupported(
                f"No source that is switched on has a price of {symbol}. Say so and give no figure."
            )
        return errors.AllSourcesFailed(f"price of {symbol}", tuple(search.causes))

    async def _search(self, chain: tuple[DataSource, ...], searches: list[_Search], purpose: Purpose) -> None:
        for place, source in enumerate(chain):
            pending = [each for each in searches if each.reading is None and not each.is_disputed]
            if not pending:
                return
            await self._ask(source, pending, purpose)
            doubtful = [each for each in pending if each.reading is not None and self._is_doubtful(each.reading)]
            await self._confirm(doubtful, chain[place + 1 :], purpose)

    async def _ask(self, source: DataSource, searches: list[_Search], purpose: Purpose) -> None:
        answers = await self._readings(source, [each.instrument for each in searches], purpose)
        for each in searches:
            answer = answers[each.instrument.symbol]
            if isinstance(answer, PriceReading):
                each.reading = answer
            else:
                each.causes.append(answer)

    async def _readings(
        self, source: DataSource, instruments: Sequence[Instrument], purpose: Purpose
    ) -> Mapping[str, PriceAnswer]:
        size = source.info.batch
        batches = [instruments[start : start + size] for start in range(0, len(instruments), size)]
        answers = await asyncio.gather(*(self._read_batch(source, batch, purpose) for batch in batches))
        return {symbol: answer for each in answers for symbol, answer in each.items()}

    async def _read_batch(
        self, source: DataSource, batch: Sequence[Instrument], purpose: Purpose
    ) -> Mapping[str, PriceAnswer]:
        try:
            answers = await self._access.ask(source, purpose, lambda client: source.read_quotes(client, batch))
        except errors.DataError as error:
            return {each.symbol: error for each in batch}
        checked: dict[str, PriceAnswer] = {}
        for each in batch:
            try:
                reading = self._check(answers.get(each.symbol), each)
                checked[each.symbol] = replace(reading, source=source.info.name, day_basis=source.day_basis)
            except errors.DataError as error:
                error.name_source(source.info.name)
                checked[each.symbol] = error
        return checked

    def _check(self, answer: PriceAnswer | None, instrument: Instrument) -> PriceReading:
        if answer is None:
            raise errors.DataUnsupported(f"said nothing of {instrument.symbol}")
        if isinstance(answer, errors.DataError):
            raise answer
        if answer.instrument != instrument:
            raise errors.DataMalformed("spoke of another instrument")
        with errors.refuse_unreadable():
            plausible.check_reading(answer, self._access.calendar, self._access.clock.now())
        return answer

    def _is_doubtful(self, reading: PriceReading) -> bool:
        last = self._last_price(reading.instrument)
        return plausible.is_rare(reading, last) or (last is None and not plausible.has_known_range(reading.instrument))

    async def _confirm(self, doubtful: list[_Search], others: Sequence[DataSource], purpose: Purpose) -> None:
        """Decide each: its reading stays, is replaced by a better one, or is taken away with a cause."""
        rare = [each for each in doubtful if self._is_rare(each.reading)]
        new = [each for each in doubtful if each not in rare]
        found = await self._second_readings([each.instrument for each in (*rare, *new[:_SAMPLE])], others, purpose)
        for each in rare:
            self._decide_rare(each, found.get(each.instrument.symbol))
        sample = new[:_SAMPLE]
        for each in sample:
            self._decide_new(each, found.get(each.instrument.symbol))
        if 2 * sum(each.reading is None for each in sample) > len(sample):
            for each in new[_SAMPLE:]:
                _refuse(each, "counts in a unit that a second source does not know")

    async def _second_readings(
        self, instruments: Sequence[Instrument], others: Sequence[DataSource], purpose: Purpose
    ) -> dict[str, PriceAnswer]:
        found: dict[str, PriceAnswer] = {}
        for source in others:
            left = [each for each in instruments if not isinstance(found.get(each.symbol), PriceReading)]
            if not left:
                break
            found |= await self._readings(source, left, purpose)
        return found

    def _is_rare(self, reading: PriceReading | None) -> bool:
        return reading is not None and plausible.is_rare(reading, self._last_price(reading.instrument))

    def _decide_rare(self, search: _Search, other: PriceAnswer | None) -> None:
        reading = search.reading
        if reading is None or (isinstance(other, PriceReading) and plausible.agree(reading.price, other.price)):
            return
        if isinstance(other, PriceReading) and not self._is_rare(other):
            _refuse(search, f"has a move to {reading.price} that {other.source} does not have")
            search.reading = other
        elif self._is_impossible(reading):
            _refuse(search, f"has a move to {reading.price}, beyond what can be, and nobody confirms it", other)
        else:
            search.is_confirmed = False

    def _is_impossible(self, reading: PriceReading) -> bool:
        """Beyond the limit of its exchange, or so far from the last price that the unit must be another one."""
        last = self._last_price(reading.instrument)
        is_other_unit = last is not None and not last / _OTHER_UNIT < reading.price < last * _OTHER_UNIT
        return is_other_unit or (plausible.has_price_limit(reading.instrument) and plausible.is_rare(reading, None))

    def _decide_new(self, search: _Search, other: PriceAnswer | None) -> None:
        reading = search.reading
        if reading is None:
            return
        if not isinstance(other, PriceReading):
            search.is_confirmed = False
        elif abs(reading.price / other.price - 1) > _SAME_UNIT:
            why = f"says {reading.price}, but {other.source} says {other.price}: one of them is wrong"
            _refuse(search, why, other)
            search.is_disputed = True


def _refuse(search: _Search, why: str, other: PriceAnswer | None = None) -> None:
    """Take the reading away, with `why` as a cause, and beside it the other source's word or its error."""
    reading = search.reading
    if reading is None:
        return
    search.reading = None
    text = f"{reading.source} {why} ({reading.instrument.symbol})"
    search.causes.append(errors.DataImplausible(text, source=reading.source))
    if isinstance(other, PriceReading):
        search.causes.append(errors.DataImplausible(text, source=other.source))
    elif other is not None:
        search.causes.append(other)


LAST_PRICE_TABLE: Final = """
CREATE TABLE last_price (symbol TEXT PRIMARY KEY, price TEXT NOT NULL, as_of DOUBLE PRECISION NOT NULL)
"""
_MOVED: Final = Decimal("0.05")
_AGED: Final = timedelta(days=1)


class LastPrices:
    """Prices by symbol, read from disk once. Small moves are not written each time: the check is for large ones."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._is_loaded = False
        self._prices: dict[str, Decimal] = {}
        self._written: dict[str, tuple[Decimal, float]] = {}

    async def load(self) -> None:
        if not self._is_loaded:
            rows = await self._database.execute("SELECT symbol, price, as_of FROM last_price")
            self._written = {str(symbol): (Decimal(price), float(as_of)) for symbol, price, as_of in rows}
            self._prices = {symbol: price for symbol, (price, _) in self._written.items()}
            self._is_loaded = True

    def find(self, symbol: str) -> Decimal | None:
        return self._prices.get(symbol)

    async def remember(self, prices: Mapping[str, tuple[Decimal, datetime]]) -> None:
        self._prices |= {symbol: price for symbol, (price, _) in prices.items()}
        fresh = {symbol: each for symbol, each in prices.items() if self._is_news(symbol, *each)}
        if not fresh:
            return

        def write(rows: Transaction) -> None:
            for symbol, (price, as_of) in fresh.items():
                rows.execute(
                    "INSERT INTO last_price (symbol, price, as_of) VALUES (?, ?, ?) "
                    "ON CONFLICT (symbol) DO UPDATE SET price = excluded.price, as_of = excluded.as_of",
                    (symbol, str(price), as_of.timestamp()),
                )

        await self._database.transaction(write)
        self._written |= {symbol: (price, as_of.timestamp()) for symbol, (price, as_of) in fresh.items()}

    def _is_news(self, symbol: str, price: Decimal, as_of: datetime) -> bool:
        written = self._written.get(symbol)
        if written is None:
            return True
        return abs(price / written[0] - 1) > _MOVED or as_of.timestamp() - written[1] > _AGED.total_seconds()
