"""Failover between models: routes to them, what follows each class of failure, and cooldowns."""

from typing import Final, NamedTuple

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
from finclaw.kernel.chunk import Model
from finclaw.kernel.port import Clock, Provider
from finclaw.redaction.redact import describe_error


class Route(NamedTuple):
    provider: str
    credential: str
    model: str


class ModelRoute(Struct, frozen=True):
    """A model and a way to it. `credential` is the key's name in the settings, never the key."""

    provider: Provider
    model: Model
    credential: str = "default"
    within: float | None = None  # seconds for one whole answer; None: the turn's

    @property
    def key(self) -> Route:
        return Route(self.provider.name, self.credential, self.model.name)


LONGEST: Final = 3_600.0  # seconds: the longest time for which nobody asks; asking too early costs one refusal


class Cooldowns:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[tuple[str, str, str, str], float] = {}
        self._failures: dict[tuple[str, str, str, str], int] = {}

    @property
    def any(self) -> bool:
        return bool(self._until)

    def note(self, route: Route, error: ProviderError, cools: tuple[float, ...], at_least: float = 0.0) -> None:
        """Each failure in a row cools longer than the last, and as long as the provider asked, within reason."""
        if not cools:
            return
        key = _key(route, type(error))
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        seconds = min(max(cools[min(failures, len(cools)) - 1], at_least), LONGEST)
        self._until[key] = self._clock.monotonic() + seconds

    def note_answer(self, route: Route) -> None:
        for key in [key for key in self._until if _covers(key, route)]:
            del self._until[key]
            del self._failures[key]

    def remaining(self, route: Route) -> float:
        """Seconds until it may be asked."""
        now = self._clock.monotonic()
        return max((0.0, *(until - now for key, until in self._until.items() if _covers(key, route))))


def _key(route: Route, kind: type[ProviderError]) -> tuple[str, str, str, str]:
    """Return what a failure says something about; an empty field stands for every key, or every model."""
    if issubclass(kind, AuthFailed | QuotaExceeded):
        return (route.provider, route.credential, "", kind.__name__)
    if issubclass(kind, RateLimited):
        return (route.provider, route.credential, route.model, kind.__name__)
    return (route.provider, "", route.model, kind.__name__)  # another key would not wake its server


def _covers(key: tuple[str, str, str, str], route: Route) -> bool:
    provider, credential, model, _ = key
    return provider == route.provider and credential in ("", route.credential) and model in ("", route.model)


class RetryPolicy(Struct, frozen=True):
    """What is tried next after a failure of one class."""

    again: bool = False  # the same question to the same model may be answered the next time
    elsewhere: bool = False  # another model may answer it
    key: bool = False  # the same model may answer it with another key, which is tried at once
    without_thinking: bool = False  # it may be answered without the earlier thoughts
    shorter: bool = False  # it may be answered once the conversation has been shortened
    cools: tuple[float, ...] = ()  # seconds without calls, longer with every failure


_BUSY: Final = (30.0, 60.0, 300.0)
_BILLING: Final = (600.0,)

RETRY_POLICIES: Final[dict[type[ProviderError], RetryPolicy]] = {
    RateLimited: RetryPolicy(again=True, elsewhere=True, key=True, cools=_BUSY),
    Overloaded: RetryPolicy(again=True, elsewhere=True, cools=_BUSY),
    ServerFailed: RetryPolicy(again=True, elsewhere=True, cools=_BUSY),
    Unreachable: RetryPolicy(again=True, elsewhere=True, cools=_BUSY),
    ProviderTimeout: RetryPolicy(again=True, elsewhere=True, cools=_BUSY),
    # Once is forgiven: it is tried again before it cools.
    StreamCut: RetryPolicy(again=True, elsewhere=True, cools=_BUSY),
    NoStream: RetryPolicy(elsewhere=True, cools=_BUSY),  # not again: an answer in one piece is paid for each time
    AuthFailed: RetryPolicy(elsewhere=True, key=True, cools=_BUSY),
    QuotaExceeded: RetryPolicy(elsewhere=True, key=True, cools=_BILLING),
    NotFound: RetryPolicy(elsewhere=True, cools=_BUSY),  # it may have been retired: that says nothing about the others
    ContextTooLong: RetryPolicy(shorter=True),
    # Otherwise it would be refused everywhere, and it says nothing about who refused it.
    BadRequest: RetryPolicy(without_thinking=True),
    ProviderError: RetryPolicy(),
}


def policy_for(error: ProviderError) -> RetryPolicy:
    return next(RETRY_POLICIES[kind] for kind in type(error).__mro__ if kind in RETRY_POLICIES)


def requested_wait(error: ProviderError) -> float:
    """Return the seconds that the provider asks us to wait; 0 if it does not ask."""
    if not isinstance(error, RateLimited | Overloaded):
        return 0.0
    return max(0.0, error.retry_after or 0.0)  # a provider of an extension may say anything


_ONLY_KEY: Final = "default"  # the name of one that has no name in the settings

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
    """Who was asked, by which key if there are several, and what can be done about it."""
    hint = f"{route.provider}/{route.model}"
    if route.credential != _ONLY_KEY:
        hint += f", key {route.credential}"
    known = next((_HINTS[kind] for kind in type(error).__mro__ if kind in _HINTS), "")
    if known:
        hint += "; " + known.format(provider=route.provider, model=route.model)
    return hint


def reason_with_hint(error: Exception) -> str:
    if isinstance(error, ProviderError) and error.beside:
        return f"{describe_error(error)} ({error.beside})"
    return describe_error(error)
