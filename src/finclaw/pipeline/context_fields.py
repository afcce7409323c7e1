"""Context fields of extensions, asked for when a turn begins: all at once, each within its budget, none needed."""

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

from msgspec import UNSET
from msgspec.structs import replace

from finclaw.cancellation import asked_to_stop
from finclaw.context_fields import ContextField
from finclaw.kernel.context import Context
from finclaw.kernel.port import Clock


class ContextFieldProviders:
    """The providers of context fields that extensions registered."""

    def __init__(self, fields: Sequence[ContextField], clock: Clock) -> None:
        self._fields = fields
        self._computed = tuple(each for each in fields if each.is_computed)
        self._fetched = tuple(each for each in fields if not each.is_computed)
        self._defaults = {each.field: each.default for each in self._fetched}
        self._clock = clock

    async def fill(self, context: Context) -> Context:
        """The context with every field that came in time; one that failed or was late has its default (M-64)."""
        if not self._fields:
            return context
        found = self._defaults | {each.field: _compute(each, context) for each in self._computed}
        context = replace(context, provided=_freeze(found))
        asked = [each for each in self._fetched if _is_wanted(each, context)]
        if not asked:
            return context
        values = await asyncio.gather(*(self._ask(each, context) for each in asked))
        found |= {each.field: value for each, value in zip(asked, values, strict=True)}
        return replace(context, provided=_freeze(found))

    async def _ask(self, provided: ContextField, context: Context) -> Any:
        try:
            return await self._fetch_within_budget(provided, context)
        except TimeoutError:
            provided.logger.warning("the context field %r took longer than %g s", provided.field, provided.budget)
        except Exception:  # a provider is a stranger; the turn goes on without what it knows
            provided.logger.exception("the context field %r could not be provided", provided.field)
        except asyncio.CancelledError:
            if asked_to_stop():
                raise
            provided.logger.exception("the context field %r was cancelled from inside", provided.field)
        return provided.default

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


def _compute(provided: ContextField, context: Context) -> Any:
    try:
        return provided.fetch(context)
    except Exception:  # a provider is a stranger; the turn goes on without what it knows
        provided.logger.exception("the context field %r could not be computed", provided.field)
        return provided.default


def _is_wanted(provided: ContextField, context: Context) -> bool:
    if provided.when is None:
        return True
    try:
        return provided.when(context)
    except Exception:  # as above
        provided.logger.exception("nobody could tell whether the context field %r is wanted", provided.field)
        return False


def _freeze(found: Mapping[str, Any]) -> Mapping[str, Any]:
    return MappingProxyType({name: value for name, value in found.items() if value is not UNSET})


def _ignore_result(fetching: "asyncio.Future[Any]") -> None:
    if not fetching.cancelled():
        fetching.exception()
