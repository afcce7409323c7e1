"""Context fields of extensions, asked for when a turn begins: all at once, each within its budget, none needed."""

import asyncio
from collections.abc import Sequence
from types import MappingProxyType
from typing import Any

from msgspec.structs import replace

from finclaw.cancellation import asked_to_stop
from finclaw.kernel.context import Context
from finclaw.kernel.extension import ContextField
from finclaw.kernel.port import Clock


class ContextFieldProviders:
    """The providers of context fields that extensions registered."""

    def __init__(self, fields: Sequence[ContextField], clock: Clock) -> None:
        self._fields = tuple(fields)
        self._clock = clock

    async def fill(self, context: Context) -> Context:
        """The context with every field that came in time; one that failed or was late is absent (M-64)."""
        if not self._fields:
            return context
        found = await asyncio.gather(*(self._ask(each, context) for each in self._fields))
        return replace(context, provided=MappingProxyType({name: value for each in found for name, value in each}))

    async def _ask(self, provided: ContextField, context: Context) -> list[tuple[str, Any]]:
        try:
            return [(provided.field, await self._fetch_within_budget(provided, context))]
        except TimeoutError:
            provided.logger.warning("the context field %r took longer than %g s", provided.field, provided.budget)
        except Exception:  # a provider is a stranger; the turn goes on without what it knows
            provided.logger.exception("the context field %r could not be provided", provided.field)
        except asyncio.CancelledError:
            if asked_to_stop():
                raise
            provided.logger.exception("the context field %r was cancelled from inside", provided.field)
        return []

    async def _fetch_within_budget(self, provided: ContextField, context: Context) -> Any:
        """By the clock. One that ignores its cancellation is left behind; nobody waits for it."""
        fetching = asyncio.ensure_future(provided.fetch(context))
        limit = asyncio.ensure_future(self._clock.sleep(provided.budget))
        try:
            await asyncio.wait({fetching, limit}, return_when=asyncio.FIRST_COMPLETED)
            if not fetching.done():
                raise TimeoutError
            return fetching.result()
        finally:
            limit.cancel()
            fetching.cancel()
            fetching.add_done_callback(_ignore_result)


def _ignore_result(fetching: "asyncio.Future[Any]") -> None:
    if not fetching.cancelled():
        fetching.exception()
