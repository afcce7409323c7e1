"""Hints for the operator about a model that did not answer, by the class of its failure and nothing else."""

from typing import Final

from finclaw.agent.model.route import Route
from finclaw.errors import (
    AuthFailed,
    BadRequest,
    NotFound,
    Overloaded,
    ProviderError,
    ProviderTimeout,
    QuotaExceeded,
    RateLimited,
    ServerFailed,
    Unreachable,
)
from finclaw.redaction.redact import describe_error

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
