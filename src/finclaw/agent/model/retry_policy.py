"""The retry policy by class of a provider's failure: once more, elsewhere, or not at all."""

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


class RetryPolicy(Struct, frozen=True):
    """A retry policy: what is tried next after a failure of one class."""

    again: bool = False
    """The same question to the same model may be answered the next time."""
    elsewhere: bool = False
    """Another model may answer it."""
    key: bool = False
    """So may the same model, asked with another key: it is tried first, and at once."""
    without_thinking: bool = False
    """The same model may answer it without what it thought before, where such thoughts went along."""
    shorter: bool = False
    """It may be answered once the conversation has been shortened."""
    cools: tuple[float, ...] = ()
    """Seconds for which nobody asks there, longer with every failure in a row."""


_BUSY: Final = (30.0, 60.0, 300.0)
_BILLING: Final = (600.0,)

RETRY_POLICIES: Final[dict[type[ProviderError], RetryPolicy]] = {
    RateLimited: RetryPolicy(again=True, elsewhere=True, key=True, cools=_BUSY),
    Overloaded: RetryPolicy(again=True, elsewhere=True, cools=_BUSY),
    ServerFailed: RetryPolicy(again=True, elsewhere=True, cools=_BUSY),
    Unreachable: RetryPolicy(again=True, elsewhere=True, cools=_BUSY),
    ProviderTimeout: RetryPolicy(again=True, elsewhere=True, cools=_BUSY),
    StreamCut: RetryPolicy(
        again=True, elsewhere=True, cools=_BUSY
    ),  # once is forgiven: it is tried again before it cools
    NoStream: RetryPolicy(elsewhere=True, cools=_BUSY),  # not again: an answer in one piece is paid for each time
    AuthFailed: RetryPolicy(elsewhere=True, key=True, cools=_BUSY),
    QuotaExceeded: RetryPolicy(elsewhere=True, key=True, cools=_BILLING),
    NotFound: RetryPolicy(elsewhere=True, cools=_BUSY),  # it may have been retired: that says nothing about the others
    ContextTooLong: RetryPolicy(shorter=True),
    BadRequest: RetryPolicy(
        without_thinking=True
    ),  # else it would be refused everywhere; and it says nothing about who refused it
    ProviderError: RetryPolicy(),
}


def policy_for(error: ProviderError) -> RetryPolicy:
    return next(RETRY_POLICIES[kind] for kind in type(error).__mro__ if kind in RETRY_POLICIES)


def requested_wait(error: ProviderError) -> float | None:
    """When it asks us to come back, in seconds; nonsense counts as no wish."""
    wish = error.retry_after if isinstance(error, RateLimited | Overloaded) else None
    return wish if wish is not None and wish >= 0 else None
