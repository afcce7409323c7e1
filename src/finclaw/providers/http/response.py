"""A response as its bytes arrive, and the timeouts for the pauses between them."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from finclaw.errors import ProviderError, ProviderTimeout
from finclaw.providers.http.connection import HttpConnection
from finclaw.providers.http.failure import connection_lost_error

LAST_BYTES_SECONDS: Final = 1.0  # for the end of a response after its last event
LONGEST_REFUSAL: Final = 65_536
REFUSAL_SECONDS: Final = 5.0  # for the words of a refusal: its status says the most


class IdleTimeouts:
    """One timer for all the responses that a pool waits for: each would otherwise set its own, and cancel it unused."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self._waiting: set[HttpResponse] = set()
        self._timer: asyncio.TimerHandle | None = None

    def add(self, response: "HttpResponse", due: float) -> None:
        self._waiting.add(response)
        if self._timer is None or due < self._timer.when():
            self._set_timer(due)

    def discard(self, response: "HttpResponse") -> None:
        """The timer stays, and is not set again if nothing is waiting then."""
        self._waiting.discard(response)

    def _set_timer(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self.loop.call_at(due, self._check)

    def _check(self) -> None:
        self._timer = None
        now = self.loop.time()
        if self._waiting:
            self._set_timer(min([each.check_timeout(now) for each in self._waiting]))


class HttpResponse:
    """`begin_by` is a time of the event loop. `idle` is the longest silence in seconds while somebody reads."""

    def __init__(
        self,
        connection: HttpConnection,
        name: str,
        begin_by: float,
        idle: float,
        keep: Callable[[HttpConnection], None],
        timeouts: IdleTimeouts,
    ) -> None:
        self._connection = connection
        self._name = name
        self._begin_by = begin_by
        self._idle = idle
        self._keep = keep
        self._timeouts = timeouts
        self._loop = timeouts.loop
        self._begun = False
        self._waiting_since: float | None = None
        self._late = self._released = False
        timeouts.add(self, min(begin_by, self._loop.time() + idle))

    @property
    def content_type(self) -> str:
        return self._connection.headers.get("content-type", "application/octet-stream").partition(";")[0].strip()

    async def begin(self, head: Awaitable[None]) -> None:
        """Wait for the head of it. Raises OSError, also when that does not come in time."""
        self._waiting_since = self._loop.time()
        try:
            await head
        finally:
            self._waiting_since = None

    async def read(self) -> bytes:
        """What has come, as soon as something has; empty at the end. Raises StreamCut or ProviderTimeout."""
        self._waiting_since = self._loop.time()
        try:
            data = await self._connection.read()
        except OSError as error:
            raise self.error_for(error) from error
        finally:
            self._waiting_since = None
        self._begun = True
        return data

    async def read_error_body(self) -> bytes:
        """The words of an answer that is none, as far as they came in time. That is all of it."""
        said = b""
        try:
            async with asyncio.timeout(REFUSAL_SECONDS):
                while len(said) < LONGEST_REFUSAL and (data := await self._connection.read()):
                    said += data
        except OSError:
            pass
        except BaseException:
            self.abort()
            raise
        self.release()
        return said

    def error_for(self, error: OSError) -> ProviderError:
        if not self._late:
            return connection_lost_error(self._name, error)
        what = f"fell silent for {self._idle:g} s" if self._begun else "did not begin to answer in time"
        return ProviderTimeout(f"{self._name} {what}")

    def abort(self) -> None:
        self._connection.close()
        self.release()

    async def drain(self) -> None:
        """Nothing follows the last event but the end; once that is read, the connection can be used again."""
        if self._connection.fully_read:
            return
        try:
            async with asyncio.timeout(LAST_BYTES_SECONDS):
                while await self._connection.read():
                    pass
        except OSError:
            pass  # the answer is whole; only the connection is lost, and release() closes it

    def release(self) -> None:
        """Once; a connection that was given back is somebody else's."""
        if not self._released:
            self._released = True
            self._timeouts.discard(self)
            self._keep(self._connection)

    def check_timeout(self, now: float) -> float:
        """Returns when to look again: never later than the first silence that can be too long."""
        since = self._waiting_since
        if since is not None and not self._connection.has_unread:
            due = since + self._idle if self._begun else self._begin_by
            if now < due:
                return min(due, now + self._idle)
            self._late = True
            self._connection.close()  # whoever waits for a byte is woken by an error
        return now + self._idle
