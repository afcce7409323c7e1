"""The policy by class of a provider's failure: retry, another model or neither, and a hint for the operator."""

from typing import Final

from msgspec import Struct

from finclaw.agent.model.route import Route
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
from finclaw.redaction.redact import describe_error


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


_ONLY_KEY: Final = "default"
"""The name of one that has no name in the settings."""

_PASSES: Final = "that mostly passes; `agent.fallbacks` would answer meanwhile"
_HINTS: Final[dict[type[ProviderError], str]] = {
    AuthFailed: "give a key that is valid and may use this model: `key` under `providers.{provider}`, or its variable",
    QuotaExceeded: "nothing is left to pay with: add credit there, or name another key or one of `agent.fallbacks`",
    RateLimited: "it was asked more often than it allows: another key or `agent.fallbacks` would help",
    Overloaded: _PASSES,
    ServerFailed: _PASSES,
    Unreachable: "is there a network? A server of your own must run, and `base_url` under `providers.{provider}` "
    "lead there",
    ProviderTimeout: "`first_byte_s` under `providers.{provider}` gives it longer to begin, `idle_s` longer pauses",
    NotFound: "check the model's name, and `base_url` under `providers.{provider}`: most end in /v1",
    BadRequest: "it would refuse this again; what the model takes is declared under `models.{provider}/{model}`: "
    "`window`, `tools`, `thinking` and more",
}


def operator_hint(error: ProviderError, route: Route) -> str:
    """Who was asked, by which key if there are several, and what to do where there is something to do."""
    key = "" if route.credential == _ONLY_KEY else f", key {route.credential}"
    known = next((_HINTS[kind] for kind in type(error).__mro__ if kind in _HINTS), "")
    todo = known.format(provider=route.provider, model=route.model)
    return f"{route.provider}/{route.model}{key}" + (f"; {todo}" if todo else "")


def reason_with_hint(error: Exception) -> str:
    """For the log and the trace."""
    beside = error.beside if isinstance(error, ProviderError) else ""
    return f"{describe_error(error)} ({beside})" if beside else describe_error(error)
