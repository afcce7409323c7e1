"""Fields of a turn's context that extensions provide, and the names of those that finance does."""

import logging
from collections.abc import Callable
from typing import Any, Final

from msgspec import UNSET, Struct

from finclaw.kernel.context import Context

MARKET_FIELDS: Final = (
    *("prices_are_live", "market_session", "preferred_currency", "preferred_market", "held_instruments", "watchlist"),
    *("last_quote_request", "currency_rates", "market_sentiment", "news_context"),
)
"""The fields of finance in `Context.provided`, in the order in which a model is told of them."""


class ContextField(Struct, frozen=True):
    """A field of a turn's context that an extension provides when the turn begins, within so many seconds."""

    field: str
    fetch: Callable[[Context], Any]
    budget: float
    logger: logging.Logger
    default: Any = UNSET
    when: Callable[[Context], bool] | None = None
    is_computed: bool = False
