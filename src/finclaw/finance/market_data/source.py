"""What a source of market data is to the chains: requests to it, and the readings that it makes of its answers.

To add a source: a row in `source_info.py`, a subclass of `DataSource` in `finance/sources/` with the kinds of data that
it has, a line in `finance/live_market.py`, its place in `DEFAULT_CHAINS`, and fixtures in `tests/finance/sources/`.
"""

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import Final, Literal, TypeVar, cast
from urllib.parse import quote as escape
from urllib.parse import urlencode

import msgspec
from msgspec import Struct

from finclaw.errors import ToolError, ToolTimeout
from finclaw.finance.instrument import Instrument
from finclaw.finance.instruments.vendor_symbols import Vendor, vendor_symbol
from finclaw.finance.market import Bar
from finclaw.finance.market_data import errors, port
from finclaw.finance.market_data.plausible import PriceAnswer, PriceReading
from finclaw.finance.market_data.settings import MarketDataSettings
from finclaw.finance.market_data.source_info import SourceInfo
from finclaw.kernel.calendar import Calendar
from finclaw.kernel.extension import Database, Transaction
from finclaw.kernel.fetch import Fetcher, FetchLimits, FetchReply, FetchRequest
from finclaw.kernel.port import Clock
from finclaw.redaction import Secret

T = TypeVar("T")
DataKind = Literal["quote", "bars", "minutes", "fixing", "news", "filings", "earnings", "profile"]

_LIMITS: Final = FetchLimits(seconds=8, connecting=4, body=4_000_000, redirects=0)
_REFUSED: Final = frozenset({401, 403, 451})
_TOO_OFTEN: Final = frozenset({418, 429})
_NOT_THERE: Final = frozenset({400, 404, 409, 422})
_SECONDS: Final = re.compile(r"\d{1,6}")
_LONGEST_REST: Final = timedelta(hours=1)


class SourceClient:
    """HTTP requests to one source: each counted before it is sent, and every failure one of market data's."""

    def __init__(
        self,
        source: "DataSource",
        fetcher: Fetcher,
        url: Callable[[str], str],
        take: Callable[[], Awaitable[None]],
        clock: Clock,
        calendar: Calendar,
    ) -> None:
        self.info = source.info
        self._source = source
        self.calendar = calendar
        self._fetcher = fetcher
        self._url = url
        self._take = take
        self._clock = clock

    @property
    def name(self) -> str:
        return self.info.name

    def now(self) -> datetime:
        return self._clock.now().astimezone(UTC)

    async def get(
        self,
        kind: type[T],
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        api: str = "api",
        headers: Mapping[str, str] | None = None,
    ) -> T:
        """A JSON answer of a documented shape. Raises DataError."""
        return self._decode(kind, await self.get_body(path, query, api=api, headers=headers))

    async def post(self, kind: type[T], path: str, content: Mapping[str, str], *, is_form: bool = False) -> T:
        """The JSON answer to a JSON document or a form: for tokens, and nothing else. Raises DataError."""
        media_type = "application/json"
        body = msgspec.json.encode(content)
        if is_form:
            media_type = "application/x-www-form-urlencoded"
            body = urlencode(content).encode()
        request = FetchRequest(
            url=f"{self._url('api')}/{path}",
            purpose=f"market data: {self.info.id}",
            method="POST",
            headers={"Content-Type": media_type},
            body=body,
            limits=_LIMITS,
        )
        return self._decode(kind, await self._fetch(request))

    def _decode(self, kind: type[T], body: bytes) -> T:
        try:
            return msgspec.json.decode(body, type=kind)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise errors.DataMalformed(f"answered what cannot be read: {error}") from error

    async def get_body(
        self,
        path: str,
        query: Mapping[str, str] | None = None,
        *,
        api: str = "api",
        headers: Mapping[str, str] | None = None,
        accept: tuple[str, ...] = (),
    ) -> bytes:
        """`accept`: media types of an answer that is no text."""
        url = f"{self._url(api)}/{escape(path, safe='/,:=.')}"
        if query:
            url += f"?{urlencode(query)}"
        request = FetchRequest(
            url=url, purpose=f"market data: {self.info.id}", headers=headers or {}, accept=accept, limits=_LIMITS
        )
        return await self._fetch(request)

    async def _fetch(self, request: FetchRequest) -> bytes:
        await self._take()
        try:
            reply = await self._fetcher.fetch(request)
        except ToolTimeout as error:
            raise errors.DataTransport("took too long") from error
        except ToolError as error:
            raise errors.DataTransport(f"could not be asked: {error}") from error
        if reply.status >= 400 and (explained := self._source.explain(self, reply.body)) is not None:
            raise explained
        self._check(reply)
        return reply.body

    def _check(self, reply: FetchReply) -> None:
        status = reply.status
        if status in _TOO_OFTEN:
            raise errors.DataRateLimited("wants fewer requests", retry_at=self._retry_at(reply))
        if status in _REFUSED:
            raise errors.DataAuthExpired(f"refused access with status {status}")
        if status in _NOT_THERE:
            raise errors.DataUnsupported(f"does not have it (status {status})")
        if not 200 <= status < 300:
            raise errors.DataTransport(f"failed with status {status}")
        if reply.truncated or not reply.body.strip():
            raise errors.DataMalformed("'s answer was not whole")

    def _retry_at(self, reply: FetchReply) -> datetime:
        """The time that the answer names, as seconds or as a date; else the usual rest of this source."""
        now = self.now()
        wanted = reply.headers.get("retry-after", "").strip()
        rest = now + timedelta(seconds=self.info.rest)
        if _SECONDS.fullmatch(wanted):
            rest = now + timedelta(seconds=max(int(wanted), 1))
        else:
            with suppress(ValueError):
                rest = parsedate_to_datetime(wanted)
        if rest.tzinfo is None:
            rest = rest.replace(tzinfo=UTC)
        return min(max(rest, now), now + _LONGEST_REST)


class DataSource:
    """A source of market data. A kind of data that it lacks is refused with DataUnsupported."""

    info: SourceInfo
    kinds: tuple[DataKind, ...] = ()
    """The kinds of data that it has of the instruments for which it has a symbol."""
    adjustment: port.Adjustment = "none"
    day_basis = ""

    def __init__(self, settings: MarketDataSettings, tokens: "TokenStore") -> None:
        self.settings = settings
        self.tokens = tokens

    def has(self, instrument: Instrument, kind: DataKind) -> bool:
        """Whether it is worth asking; one that says no is passed over without a word."""
        return kind in self.kinds and bool(self.symbol_of(instrument))

    def symbol_of(self, instrument: Instrument) -> str:
        return vendor_symbol(cast("Vendor", self.info.id), instrument) or ""

    def explain(self, client: SourceClient, body: bytes) -> errors.DataError | None:
        """What an answer with the status of an error says about it; None: its status says it."""
        return None

    async def read_quotes(self, client: SourceClient, instruments: Sequence[Instrument]) -> Mapping[str, PriceAnswer]:
        """Of at most `info.batch` instruments, by our own symbols. Overridden where one answer holds several prices."""
        return await ask_each(instruments, lambda each: self.read_quote(client, each))

    async def read_quote(self, client: SourceClient, instrument: Instrument) -> PriceReading:
        raise self._lacks("quotes")

    async def read_series(self, client: SourceClient, instrument: Instrument, span: port.BarRange) -> port.BarSeries:
        return port.BarSeries(
            instrument=instrument,
            bars=tuple(await self.read_bars(client, instrument, span)),
            adjustment=self.adjustment,
            source=self.info.name,
            day_basis=self.day_basis,
        )

    async def read_bars(self, client: SourceClient, instrument: Instrument, span: port.BarRange) -> Sequence[Bar]:
        raise self._lacks("bars")

    async def read_fixing(self, client: SourceClient, base: str, quote: str) -> port.ExchangeRate:
        raise self._lacks("fixings")

    async def read_news(
        self, client: SourceClient, instrument: Instrument | None, limit: int
    ) -> Sequence[port.NewsItem]:
        raise self._lacks("news")

    async def read_filings(self, client: SourceClient, instrument: Instrument, limit: int) -> Sequence[port.Filing]:
        raise self._lacks("filings")

    async def read_earnings(self, client: SourceClient, first: date, last: date) -> Sequence[port.EarningsDate]:
        raise self._lacks("earnings dates")

    async def read_profile(self, client: SourceClient, instrument: Instrument) -> port.CompanyProfile:
        raise self._lacks("profiles")

    def reveal_keys(self) -> tuple[str, ...]:
        if not self.settings.has_keys(self.info.id):
            raise errors.DataAuthExpired("wants a key: set `market_data.keys` to one")
        return tuple(self.settings.keys[each].reveal() for each in self.info.keys)

    def _lacks(self, what: str) -> errors.DataUnsupported:
        return errors.DataUnsupported(f"has no {what}")


async def ask_each(
    instruments: Sequence[Instrument], ask: Callable[[Instrument], Awaitable[PriceReading]]
) -> dict[str, PriceAnswer]:
    """Ask for all instruments at once. An error that is about one of them leaves the others."""

    async def ask_one(instrument: Instrument) -> PriceAnswer:
        try:
            with errors.refuse_unreadable():
                return await ask(instrument)
        except (errors.DataTransport, errors.DataRateLimited, errors.DataAuthExpired):
            raise
        except errors.DataError as error:
            return error

    answers = await asyncio.gather(*map(ask_one, instruments))
    return {each.symbol: answer for each, answer in zip(instruments, answers, strict=True)}


TOKEN_TABLE: Final = """
CREATE TABLE access_token (
    source TEXT PRIMARY KEY, token TEXT NOT NULL, good_until DOUBLE PRECISION NOT NULL,
    asked_at DOUBLE PRECISION NOT NULL
)
"""
_SPACING: Final = timedelta(seconds=65)  # between two requests for a token, whoever makes them
_EARLY_S: Final = 3_600
"""A token is replaced so long before it ends; a short one after nine tenths of its time."""
_SHORTEST_S: Final = 60
_LONGEST_S: Final = 7 * 86_400  # a token that lasts less or longer is none that can be relied on


class TokenAnswer(Struct):
    access_token: str
    expires_in: int


class TokenStore:
    """The tokens of all sources. Who asks for a new one has said so on disk first, so nobody else does."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._lock = asyncio.Lock()

    async def get(self, source: SourceInfo, request: Callable[[], Awaitable[TokenAnswer]]) -> Secret:
        """A token that is good, from the store or from `request`. Raises DataError."""
        async with self._lock:
            now = self._clock.now().timestamp()
            token = await self._database.transaction(lambda rows: _find_or_claim(rows, source.id, now))
            if not token:
                answer = await request()
                token = answer.access_token
                if not token or not _SHORTEST_S < answer.expires_in <= _LONGEST_S:
                    raise errors.DataMalformed("gave no token that can be used")
                until = now + answer.expires_in - min(_EARLY_S, answer.expires_in / 10)
                await self._database.execute(
                    "UPDATE access_token SET token = ?, good_until = ? WHERE source = ?", token, until, source.id
                )
            return Secret(token, temporary=True)

    async def forget(self, source: SourceInfo) -> None:
        """The source no longer takes it. The spacing holds all the same."""
        await self._database.execute("UPDATE access_token SET good_until = 0 WHERE source = ?", source.id)


def _find_or_claim(rows: Transaction, source: str, now: float) -> str:
    """A good token, or "" where this caller is to ask for one. Raises DataRateLimited if somebody has just asked."""
    found = rows.execute("SELECT token, good_until, asked_at FROM access_token WHERE source = ?", (source,))
    if found:
        token, good_until, asked_at = found[0]
        if float(good_until) > now:
            return str(token)
        again = float(asked_at) + _SPACING.total_seconds()
        if float(asked_at) <= now < again:
            retry_at = datetime.fromtimestamp(again, UTC)
            raise errors.DataRateLimited("gives one token a minute, and somebody has just asked", retry_at=retry_at)
    rows.execute(
        "INSERT INTO access_token (source, token, good_until, asked_at) VALUES (?, '', 0, ?) "
        "ON CONFLICT (source) DO UPDATE SET token = '', good_until = 0, asked_at = excluded.asked_at",
        (source, now),
    )
    return ""


class TokenSource(DataSource):
    async def request_token(self, client: SourceClient, key: str, secret: str) -> TokenAnswer:
        raise NotImplementedError

    async def ask_with_token(self, client: SourceClient, ask: Callable[[str, str, str], Awaitable[T]]) -> T:
        """What `ask` gives with key, secret and token. Raises DataError; a token that is refused is forgotten."""
        key, secret = self.reveal_keys()
        token = await self.tokens.get(self.info, lambda: self.request_token(client, key, secret))
        try:
            return await ask(key, secret, token.reveal())
        except errors.DataAuthExpired:
            await self.tokens.forget(self.info)
            raise
