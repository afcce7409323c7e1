"""The last price that was believed of each instrument, on disk: what a new one is measured by."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Final

from finclaw.kernel.extension import Database, Transaction

LAST_PRICE_TABLE: Final = """
CREATE TABLE last_price (symbol TEXT PRIMARY KEY, price TEXT NOT NULL, as_of DOUBLE PRECISION NOT NULL)
"""
_MOVED: Final = Decimal("0.05")
_AGED: Final = timedelta(days=1)


class LastPrices:
    """Prices by symbol, read from disk once. Small moves are not written each time: the check is for large ones."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._prices: dict[str, tuple[Decimal, datetime]] | None = None
        self._written: dict[str, tuple[Decimal, float]] = {}

    async def load(self) -> None:
        if self._prices is None:
            rows = await self._database.execute("SELECT symbol, price, as_of FROM last_price")
            self._written = {str(symbol): (Decimal(price), float(as_of)) for symbol, price, as_of in rows}
            self._prices = {}

    def find(self, symbol: str) -> Decimal | None:
        if self._prices and symbol in self._prices:
            return self._prices[symbol][0]
        written = self._written.get(symbol)
        return written[0] if written else None

    async def remember(self, prices: Mapping[str, tuple[Decimal, datetime]]) -> None:
        kept = self._prices if self._prices is not None else {}
        kept.update(prices)
        self._prices = kept
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
