"""A channel to the fake platform, over a real socket."""

import asyncio
from collections.abc import Sequence
from http import HTTPStatus

import aiohttp
import msgspec
from tests.support.wire import RefusedSend, SendAnswer, SendBody, Update, Updates

from finclaw.errors import FinclawError, SendFailed, SendRefused, SendUnknown
from finclaw.kernel.envelope import Capabilities, Inbound, Receipt, Sender
from finclaw.kernel.port import Accept, Channel, Clock
from finclaw.kernel.record import OutboxItem

_NO_ANSWER = (aiohttp.ClientError, OSError, TimeoutError, msgspec.DecodeError)
"""Everything that leaves us without a word from the platform that we can understand."""

_NEVER_LEFT = (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError)
"""There was no connection, so nothing was written to it."""


class LoopbackChannel(Channel):
    """The Channel port over FakePlatform.

    Polls in batches. A batch's messages are accepted side by side, begun in the platform's order; the offset goes
    past a message only when its `accept` and all before it have returned, and the platform gives the rest again.
    """

    def __init__(
        self,
        url: str,
        clock: Clock,
        *,
        name: str = "loopback",
        capabilities: Capabilities | None = None,
        wait: float = 20.0,
        pause: float = 0.05,
    ) -> None:
        self._url = url
        self._clock = clock
        self.name = name
        self.capabilities = capabilities or Capabilities()
        self._wait = wait
        self._pause = pause
        self._http: aiohttp.ClientSession | None = None
        self.connected = False

    async def receive(self, accept: Accept) -> None:
        # Whoever stops receiving may still send: a gateway that stops lets its last answers out.
        offset = 0
        while True:
            updates = await self._poll(offset)
            safe = await self._accept_all(updates, accept)
            if safe:
                offset = updates[safe - 1].id + 1
            if safe < len(updates) or not self.connected:
                await self._clock.sleep(self._pause)

    async def send(self, unit: OutboxItem) -> Receipt:
        return await self._post(unit, None)

    async def edit(self, platform_id: str, unit: OutboxItem) -> None:
        await self._post(unit, platform_id)

    async def _post(self, unit: OutboxItem, edits: str | None) -> Receipt:
        body = SendBody(unit.conversation, unit.token, unit.outbound.formatted, unit.outbound.reply_to, edits)
        try:
            async with self._session().post(f"{self._url}/send", data=msgspec.json.encode(body)) as answer:
                return _receipt(answer.status, await answer.read())
        except _NEVER_LEFT as error:
            raise SendFailed(f"{self.name}: {error!r}") from error
        except _NO_ANSWER as error:
            raise SendUnknown(f"{self.name}: {error!r}") from error

    async def close(self) -> None:
        if self._http is not None:
            await self._http.close()
            self._http = None

    async def _poll(self, offset: int) -> list[Update]:
        """The next batch: nothing, and not connected, when the platform cannot be reached."""
        # The first poll comes back at once: until one has, nobody knows that we are connected.
        wait = self._wait if self.connected else 0.0
        query = {"offset": str(offset), "wait": str(wait)}
        limit = aiohttp.ClientTimeout(total=wait + 10)
        try:
            async with self._session().get(f"{self._url}/updates", params=query, timeout=limit) as answer:
                answer.raise_for_status()
                updates = msgspec.json.decode(await answer.read(), type=Updates).updates
        except _NO_ANSWER:
            self.connected = False
            return []
        self.connected = True
        return updates

    async def _accept_all(self, updates: Sequence[Update], accept: Accept) -> int:
        """How many, from the first on, are safe with us."""
        results = await asyncio.gather(*(accept(self._inbound(each)) for each in updates), return_exceptions=True)
        for place, result in enumerate(results):
            if isinstance(result, FinclawError):
                return place  # the platform keeps it and will give it again
            if isinstance(result, BaseException):
                raise result
        return len(results)

    def _inbound(self, update: Update) -> Inbound:
        return Inbound(
            text=update.text,
            channel=self.name,
            conversation=update.conversation,
            message_id=update.message_id,
            sender=Sender(update.sender),
        )

    def _session(self) -> aiohttp.ClientSession:
        if self._http is None:
            self._http = aiohttp.ClientSession()
        return self._http


def _receipt(status: int, body: bytes) -> Receipt:
    if status == HTTPStatus.OK:
        return Receipt(msgspec.json.decode(body, type=SendAnswer).id)
    refusal = msgspec.json.decode(body, type=RefusedSend)
    if status == HTTPStatus.TOO_MANY_REQUESTS:
        raise SendFailed(refusal.error, retry_after=refusal.retry_after)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        raise SendFailed(refusal.error)
    raise SendRefused(refusal.error)
