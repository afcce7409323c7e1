"""Access tokens of sources that give one for a day: kept on disk, so that a restart or a second process asks for none.

KIS allows one request for a token a minute, and sends the account's owner a message for each.
"""

import asyncio
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Final, TypeVar

from msgspec import Struct

from finclaw.finance.market_data.errors import DataAuthExpired, DataMalformed, DataRateLimited
from finclaw.finance.market_data.source import DataSource, SourceClient
from finclaw.finance.market_data.source_info import SourceInfo
from finclaw.kernel.extension import Database, Transaction
from finclaw.kernel.port import Clock
from finclaw.redaction import Secret

T = TypeVar("T")

TOKEN_TABLE: Final = """
CREATE TABLE access_token (
    source TEXT PRIMARY KEY, token TEXT NOT NULL, good_until DOUBLE PRECISION NOT NULL,
    asked_at DOUBLE PRECISION NOT NULL
)
"""
_SPACING: Final = timedelta(seconds=65)
"""Between two requests for a token, whoever makes them."""
_EARLY: Final = timedelta(hours=1)
"""A token is replaced so long before it ends; a short one after nine tenths of its time."""
_SHORTEST_S: Final = 60
_LONGEST_S: Final = 7 * 86_400
"""A token that lasts less or longer is none that can be relied on."""


class TokenStore:
    """The tokens of all sources. Who asks for a new one has said so on disk first, so nobody else does."""

    def __init__(self, database: Database, clock: Clock) -> None:
        self._database = database
        self._clock = clock
        self._lock = asyncio.Lock()

    async def get(self, source: SourceInfo, request: Callable[[], Awaitable[tuple[str, timedelta]]]) -> Secret:
        """A token that is good; `request` gives a new one and for how long. Raises DataRateLimited or DataError."""
        async with self._lock:
            now = self._clock.now().timestamp()
            kept, again = await self._database.transaction(lambda rows: _find_or_claim(rows, source.id, now))
            if again:
                raise DataRateLimited(
                    f"{source.name} gives one token a minute, and somebody has just asked",
                    source=source.name,
                    retry_at=datetime.fromtimestamp(again, UTC),
                )
            if kept:
                return Secret(kept, temporary=True)
            token, lifetime = await request()
            until = now + (lifetime - min(_EARLY, lifetime / 10)).total_seconds()
            await self._database.execute(
                "UPDATE access_token SET token = ?, good_until = ? WHERE source = ?", token, until, source.id
            )
            return Secret(token, temporary=True)

    async def forget(self, source: SourceInfo) -> None:
        """The source no longer takes it. The spacing holds all the same."""
        await self._database.execute("UPDATE access_token SET good_until = 0 WHERE source = ?", source.id)


def _find_or_claim(rows: Transaction, source: str, now: float) -> tuple[str, float]:
    """A good token, or when somebody may ask again who has just asked. Neither: it is for this caller to ask now."""
    found = rows.execute("SELECT token, good_until, asked_at FROM access_token WHERE source = ?", (source,))
    if found:
        token, good_until, asked_at = found[0]
        if float(good_until) > now:
            return str(token), 0.0
        again = float(asked_at) + _SPACING.total_seconds()
        if float(asked_at) <= now < again:
            return "", again
    rows.execute(
        "INSERT INTO access_token (source, token, good_until, asked_at) VALUES (?, '', 0, ?) "
        "ON CONFLICT (source) DO UPDATE SET token = '', good_until = 0, asked_at = excluded.asked_at",
        (source, now),
    )
    return "", 0.0


class TokenAnswer(Struct):
    """What a source says when it is asked for a token; it lasts for so many seconds."""

    access_token: str
    expires_in: int


class TokenSource(DataSource):
    """A source that wants the key of an account, and a token for it. All processes of a state directory share one."""

    def __init__(
        self, key: Secret | None = None, secret: Secret | None = None, tokens: TokenStore | None = None
    ) -> None:
        self._key = key
        self._secret = secret
        self._tokens = tokens

    async def request_token(self, client: SourceClient, key: str, secret: str) -> TokenAnswer:
        """A new token, from the source itself. Raises DataError."""
        raise NotImplementedError

    async def ask_with_token(self, client: SourceClient, ask: Callable[[str, str, str], Awaitable[T]]) -> T:
        """What `ask` gives with key, secret and token. Raises DataError; a token that is refused is forgotten."""
        if self._key is None or self._secret is None or self._tokens is None:
            name = self.info.name
            raise DataAuthExpired(f"{name} wants a key: set `market_data.keys` to one", source=name)
        key, secret = self._key.reveal(), self._secret.reveal()
        token = await self._tokens.get(self.info, lambda: self._read_token(client, key, secret))
        try:
            return await ask(key, secret, token.reveal())
        except DataAuthExpired:
            await self._tokens.forget(self.info)
            raise

    async def _read_token(self, client: SourceClient, key: str, secret: str) -> tuple[str, timedelta]:
        found = await self.request_token(client, key, secret)
        if not found.access_token or not _SHORTEST_S < found.expires_in <= _LONGEST_S:
            raise DataMalformed(f"{client.name} gave no token that can be used", source=client.name)
        return found.access_token, timedelta(seconds=found.expires_in)
