"""Access to the sources: which ones a chain names, with a client for each, its budget and its circuit breaker."""

from collections.abc import Awaitable, Callable, Mapping
from typing import TypeVar

from finclaw.finance.instrument import Instrument
from finclaw.finance.market_data.breaker import SourceBreaker
from finclaw.finance.market_data.budget import RequestBudget
from finclaw.finance.market_data.errors import DataError, refuse_unreadable
from finclaw.finance.market_data.port import Purpose
from finclaw.finance.market_data.settings import MarketDataSettings
from finclaw.finance.market_data.source import DataKind, DataSource, SourceClient
from finclaw.kernel.calendar import Calendar
from finclaw.kernel.fetch import Fetcher
from finclaw.kernel.port import Clock

T = TypeVar("T")


class SourceAccess:
    """The sources that the settings allow. Every request to one passes here."""

    def __init__(
        self,
        sources: Mapping[str, DataSource],
        settings: MarketDataSettings,
        fetcher: Fetcher,
        budget: RequestBudget,
        clock: Clock,
        calendar: Calendar,
    ) -> None:
        self.clock = clock
        self.calendar = calendar
        self._sources = sources
        self._settings = settings
        self._fetcher = fetcher
        self._budget = budget
        self._breaker = SourceBreaker()

    def chain(self, instrument: Instrument, kind: DataKind) -> tuple[DataSource, ...]:
        """The sources that have this kind of data for the instrument, in the order of the settings."""
        return tuple(each for each in self.named_chain(chain_key(instrument, kind)) if each.has(instrument, kind))

    def named_chain(self, key: str) -> tuple[DataSource, ...]:
        """The sources of a chain by its name, for what is about no single instrument."""
        return tuple(self._sources[each] for each in self._settings.chain(key) if each in self._sources)

    async def ask(self, source: DataSource, purpose: Purpose, request: Callable[[SourceClient], Awaitable[T]]) -> T:
        """Raises DataError, also for a figure that cannot be read. A source that rests is not asked at all."""
        info = source.info
        self._breaker.check(info, self.clock.now())
        sent = False

        async def take() -> None:
            nonlocal sent
            await self._budget.take(info, purpose)
            sent = True

        client = SourceClient(
            info, self._fetcher, lambda api: self._settings.url(info.id, api), take, self.clock, self.calendar
        )
        try:
            with refuse_unreadable(info.name):
                answer = await request(client)
        except DataError as error:
            if sent:  # what our own budget refuses says nothing about the source
                self._breaker.record_failure(info, error, self.clock.now())
            raise
        self._breaker.record_success(info)
        return answer


def chain_key(instrument: Instrument, kind: DataKind) -> str:
    """The name of a chain in the settings: asset class, market, kind of data."""
    if instrument.kind == "coin":
        return f"coin.{instrument.currency}.{kind}"
    market = {"KRX": "KRX", "FX": "FX"}.get(instrument.exchange, "US")
    asset = "stock" if instrument.kind == "etf" else instrument.kind
    return f"{asset}.{market}.{kind}"
