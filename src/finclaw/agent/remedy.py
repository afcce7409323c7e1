"""What helps against a provider's failure, by its class and nothing else: once more, elsewhere, or nothing at all."""

from typing import Final

from msgspec import Struct

from finclaw.errors import (
    AuthFailed,
    BadRequest,
    ContextTooLong,
    NoStream,
    NotFound,
    Overloaded,
    ProviderError,
    ProviderTimeout,
    QuotaExceeded,
    RateLimited,
    ServerFailed,
    StreamCut,
    Unreachable,
)


class Remedy(Struct, frozen=True):
    again: bool = False
    """The same question to the same model may be answered the next time."""
    elsewhere: bool = False
    """Another model may answer it."""
    key: bool = False
    """So may the same model, asked with another key: it is tried first, and at once."""
    plainer: bool = False
    """The same model may answer it without what it thought before, where such thoughts went along."""
    shorter: bool = False
    """It may be answered once the conversation has been shortened."""
    cools: tuple[float, ...] = ()
    """Seconds for which nobody asks there, longer with every failure in a row."""


_BUSY: Final = (30.0, 60.0, 300.0)
_BILLING: Final = (600.0,)

REMEDIES: Final[dict[type[ProviderError], Remedy]] = {
    RateLimited: Remedy(again=True, elsewhere=True, key=True, cools=_BUSY),
    Overloaded: Remedy(again=True, elsewhere=True, cools=_BUSY),
    ServerFailed: Remedy(again=True, elsewhere=True, cools=_BUSY),
    Unreachable: Remedy(again=True, elsewhere=True, cools=_BUSY),
    ProviderTimeout: Remedy(again=True, elsewhere=True, cools=_BUSY),
    StreamCut: Remedy(again=True, elsewhere=True, cools=_BUSY),  # once is forgiven: it is tried again before it cools
    NoStream: Remedy(elsewhere=True, cools=_BUSY),  # not again: an answer in one piece is paid for each time
    AuthFailed: Remedy(elsewhere=True, key=True, cools=_BUSY),
    QuotaExceeded: Remedy(elsewhere=True, key=True, cools=_BILLING),
    NotFound: Remedy(elsewhere=True, cools=_BUSY),  # it may have been retired: that says nothing about the others
    ContextTooLong: Remedy(shorter=True),
    BadRequest: Remedy(plainer=True),  # else it would be refused everywhere; and it says nothing about who refused it
    ProviderError: Remedy(),
}


def remedy_for(error: ProviderError) -> Remedy:
    return next(REMEDIES[kind] for kind in type(error).__mro__ if kind in REMEDIES)


def wish_of(error: ProviderError) -> float | None:
    """When it asks us to come back, in seconds; nonsense counts as no wish."""
    wish = error.retry_after if isinstance(error, RateLimited | Overloaded) else None
    return wish if wish is not None and wish >= 0 else None
