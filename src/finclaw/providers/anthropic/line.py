"""The connections to the API. Imported with the first question, because aiohttp is not free."""

import asyncio
from typing import Final

import aiohttp
from aiohttp.abc import AbstractStreamWriter
from multidict import CIMultiDict
from yarl import URL

from finclaw.errors import Overloaded, StreamCut
from finclaw.kernel.secret import Secret
from finclaw.providers.anthropic.failure import refused

CONNECT_SECONDS: Final = 10.0
LAST_BYTES_SECONDS: Final = 1.0
"""How long the end of a response may take after its last event, before the connection is given up."""
LONGEST_REFUSAL: Final = 65_536

_BROKEN = (aiohttp.ClientError, TimeoutError, OSError)


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
    def __init__(self, base_url: str, key: Secret, name: str) -> None:
        self._url = URL(base_url.rstrip("/") + "/v1/messages")
        self._name = name
        headers = {
            "accept": "text/event-stream",
            "accept-encoding": "identity",
            "anthropic-version": "2023-06-01",
            "content-type": "application/json",
            "user-agent": "finclaw",
            "x-api-key": key.reveal(),
        }
        self._session = aiohttp.ClientSession(
            headers=CIMultiDict(headers),
            connector=aiohttp.TCPConnector(limit=0),
            cookie_jar=aiohttp.DummyCookieJar(),
            # No limit on the whole: an answer may be long, and the turn has a deadline of its own.
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=CONNECT_SECONDS),
        )

    async def post(self, body: bytes) -> aiohttp.ClientResponse:
        """The response to read from. Raises ProviderError; the caller releases what it gets."""
        try:
            response = await self._session.post(self._url, data=_Body(body), allow_redirects=False)
        except _BROKEN as error:
            raise Overloaded(f"{self._name} cannot be reached: {error!r}") from error
        if response.status == 200:
            return response
        try:
            said = await response.content.read(LONGEST_REFUSAL)
        except _BROKEN:
            said = b""
        finally:
            response.release()
        raise refused(self._name, response.status, response.headers.get("retry-after"), said)

    async def read(self, response: aiohttp.ClientResponse) -> bytes:
        """What has come, as soon as something has; empty at the end. Raises StreamCut."""
        try:
            return await response.content.readany()
        except _BROKEN as error:
            raise StreamCut(f"{self._name}: the stream broke off: {error!r}") from error

    async def read_out(self, response: aiohttp.ClientResponse) -> None:
        """Nothing follows the last event but the end; once that is read, the connection can be used again."""
        if response.content.at_eof():
            return
        try:
            async with asyncio.timeout(LAST_BYTES_SECONDS):
                while await response.content.readany():
                    pass
        except _BROKEN:
            pass  # the answer is whole; only the connection is lost, and release() closes it

    async def close(self) -> None:
        await self._session.close()
