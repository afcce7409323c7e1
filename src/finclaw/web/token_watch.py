"""Watcher of the token file: it ends what was let in by a token that is no longer the right one.

A request is checked when it begins. One that waits (a long poll, an event stream, a WebSocket, a slow upload) may
outlive its token, so the file is read once a second and whatever the old token opened is ended then.
"""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Final

from finclaw.web.auth import Authenticator, token_replaced

CHECK_EVERY: Final = 1.0
"""Seconds between two looks at the token file."""


class TokenWatch:
    """A watcher of the token file."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._open: dict[asyncio.Timeout, str] = {}

    @asynccontextmanager
    async def end_with_token(self, authorization: str) -> AsyncGenerator[None]:
        """Run the block until it ends or its token is replaced. Raises ApiError in the latter case.

        Such blocks must not be nested: a task that two of them cancel at once looks like one that was cancelled from
        outside.
        """
        limit = asyncio.timeout(None)
        try:
            async with limit:
                self._open[limit] = authorization
                try:
                    yield
                finally:
                    self._open.pop(limit, None)
        except TimeoutError:
            if limit.expired():
                raise token_replaced() from None
            raise

    async def run(self) -> None:
        """Until cancelled."""
        while True:
            await asyncio.sleep(CHECK_EVERY)
            self._end_replaced()

    def _end_replaced(self) -> None:
        is_valid = {each: self._authenticator.is_valid(each) for each in set(self._open.values())}
        for limit, authorization in list(self._open.items()):
            if not is_valid[authorization]:
                del self._open[limit]
                limit.reschedule(asyncio.get_running_loop().time())
