"""Settings of market data: which sources are asked for what, and in which order."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Final

from finclaw.errors import ConfigError
from finclaw.finance.market_data.source_info import SOURCES
from finclaw.redaction import Secret

DEFAULT_CHAINS: Final[Mapping[str, tuple[str, ...]]] = {
    "stock.KRX.quote": ("kis", "toss", "naver", "yahoo"),
    "stock.KRX.bars": ("kis", "toss", "naver", "yahoo"),
    "stock.KRX.minutes": ("naver", "yahoo"),
    "index.KRX.quote": ("naver", "yahoo"),
    "index.KRX.bars": ("yahoo",),
    "index.KRX.minutes": ("yahoo",),
    "stock.US.quote": ("alpaca", "finnhub", "toss", "yahoo", "naver"),
    "stock.US.bars": ("alpaca", "toss", "yahoo"),
    "stock.US.minutes": ("yahoo",),
    "index.US.quote": ("yahoo", "naver"),
    "index.US.bars": ("yahoo",),
    "index.US.minutes": ("yahoo",),
    "rate.FX.quote": ("naver", "yahoo"),
    "rate.FX.bars": ("yahoo",),
    "rate.FX.minutes": ("yahoo",),
    "rate.FX.fixing": ("frankfurter", "ecb"),
    "coin.KRW.quote": ("upbit", "bithumb"),
    "coin.KRW.bars": ("upbit", "bithumb"),
    "coin.KRW.minutes": ("upbit", "bithumb"),
    "coin.USD.quote": ("coinbase", "kraken"),
    "coin.USD.bars": ("coinbase", "kraken"),
    "coin.USD.minutes": ("coinbase", "kraken"),
    "stock.KRX.news": ("google_news",),
    "stock.US.news": ("alpaca", "finnhub", "google_news", "edgar"),
    "coin.KRW.news": ("google_news",),
    "coin.USD.news": ("google_news",),
    "market.ALL.news": ("central_banks", "finnhub"),
    "stock.KRX.filings": ("opendart", "dart"),
    "stock.US.filings": ("edgar",),
    "stock.US.earnings": ("finnhub", "nasdaq"),
    "stock.US.profile": ("edgar",),
}
"""Sources by asset class, market and kind of data, the preferred one first. The second one is another vendor; US bars
and minutes have none without a key. Funds go with stocks. Nothing outside of a chain is ever asked, and of a chain only
those whose keys are given."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MarketDataSettings:
    """Where live prices come from, with `market: live`. Without any of these the usual sources are asked."""

    disabled: tuple[str, ...] = ()
    """Sources that are never asked, such as `[yahoo]`."""
    chains: Mapping[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    """Other sources or another order for a kind of data, such as `stock.US.quote: [naver, yahoo]`."""
    urls: Mapping[str, str] = field(default_factory=dict[str, str])
    """Other addresses of sources, such as `yahoo.api: https://query1.finance.yahoo.com`."""
    private: tuple[str, ...] = ()
    """Hosts of your own network among those addresses, each as `host:port`."""
    contact: str = ""
    """An address of mail. The SEC wants one in every request; without it US filings are not asked for."""
    keys: Mapping[str, Secret] = field(default_factory=dict[str, Secret])
    """Keys of sources that want one, such as `opendart.key: env:OPENDART_KEY`, `alpaca.id` and `alpaca.secret`,
    `kis.key` and `kis.secret`, `toss.id` and `toss.secret`, `finnhub.key`."""

    def __post_init__(self) -> None:
        for source in self.disabled:
            _must_know("disabled", source, SOURCES)
        for chain, sources in self.chains.items():
            _must_know("chains", chain, DEFAULT_CHAINS)
            for source in sources:
                _must_know(f"chains has {chain}, which", source, SOURCES)
        names = {key: True for source in SOURCES.values() for key in source.keys}
        for key in self.keys:
            _must_know("keys", key, names)
        apis = {f"{source.id}.{api}": url for source in SOURCES.values() for api, url in source.urls.items()}
        for api, url in self.urls.items():
            _must_know("urls", api, apis)
            if not url.startswith(("https://", "http://")):
                raise ConfigError(f"urls has {api}: {url}, which is no address; write https://HOST/PATH")

    def chain(self, key: str) -> tuple[str, ...]:
        """The sources for a kind of data, in their order, without those that are switched off or lack a key."""
        named = self.chains.get(key, DEFAULT_CHAINS.get(key, ()))
        return tuple(each for each in named if each not in self.disabled and self.has_keys(each))

    def has_keys(self, source: str) -> bool:
        return all(key in self.keys for key in SOURCES[source].keys)

    def used(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(source for key in DEFAULT_CHAINS for source in self.chain(key)))

    def url(self, source: str, api: str) -> str:
        return self.urls.get(f"{source}.{api}", SOURCES[source].urls[api]).rstrip("/")


def _must_know(setting: str, name: str, known: Mapping[str, object]) -> None:
    if name not in known:
        near = get_close_matches(name, known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        raise ConfigError(f"{setting} names {name!r}, which is not known; {hint}")
