"""The connections to one API. Imported with the first question, because aiohttp is not free."""

import asyncio
from collections.abc import Mapping
from typing import Final

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict
from yarl import URL

from finclaw.kernel.port import Clock
from finclaw.providers.wire.failure import Kinds, lost, refused, seconds_to_wait
from finclaw.providers.wire.reply import Reply

CONNECT_SECONDS: Final = 10.0
LONGEST_REFUSAL: Final = 65_536
REFUSAL_SECONDS: Final = 5.0
"""For the words of a refusal. Its status is known by then, and says the most."""

_BROKEN = (aiohttp.ClientError, TimeoutError, OSError)
_NEVER_CONNECTED = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError, aiohttp.InvalidURL)


class _Body(aiohttp.Payload):
    """Bytes in one write, however many: the kernel takes a megabyte in the time that pieces of it would cost."""

    _value: bytes

    @property
    def size(self) -> int:
        return len(self._value)

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return self._value.decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        await writer.write(self._value)


class Line:
    """Asks one address with one set of headers, over connections that are used again."""

    def __init__(self, url: str, headers: Mapping[str, str], *, name: str, kinds: Kinds, clock: Clock) -> None:
        self._url = URL(url)
        self._name = name
        self._kinds = kinds
        self._clock = clock
        always = {
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            "content-type": "application/json",
            "user-agent": "finclaw",
        }
        self._session = aiohttp.ClientSession(
            headers=CIMultiDict({**always, **headers}),
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            # No limit on the whole: an answer may be long, and the turn has a deadline of its own.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        )

    async def post(self, body: bytes, *, first_byte: float, idle: float) -> Reply:
        """The reply to read from; the caller releases it. Raises ProviderError.

        `first_byte` bounds, in seconds, the wait until the answer begins, `idle` each later silence.
        """
        begin_by = asyncio.get_running_loop().time() + first_byte
        try:
            async with asyncio.timeout_at(begin_by):
                response = await self._session.post(self._url, data=_Body(body), allow_redirects=False)
        except _BROKEN as error:
            raise lost(self._name, error, connected=not isinstance(error, _NEVER_CONNECTED)) from error
        if response.status == 200:
            return Reply(response, self._name, begin_by, idle)
        said = await _read_refusal(response)
        wait = seconds_to_wait(response.headers, self._clock.now())
        raise refused(self._name, response.status, wait, said, self._kinds)

    async def close(self) -> None:
        await self._session.close()


async def _read_refusal(response: aiohttp.ClientResponse) -> bytes:
    """What came of it in time."""
    said = b""
    try:
        async with asyncio.timeout(REFUSAL_SECONDS):
            while len(said) < LONGEST_REFUSAL and (data := await response.content.readany()):
                said += data
    except _BROKEN:
        pass
    finally:
        response.release()
    return said
