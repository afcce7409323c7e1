"""Routes to models (provider, key, model), and their cooldowns after failures."""

from typing import Final, NamedTuple

from msgspec import Struct

from finclaw.errors import AuthFailed, ProviderError, QuotaExceeded, RateLimited
from finclaw.kernel.chunk import Model
from finclaw.kernel.port import Clock, Provider


class Route(NamedTuple):
    """One way to an answer. `credential` is the key's name in the settings, never the key."""

    provider: str
    credential: str
    model: str


class ModelRoute(Struct, frozen=True):
    """A model and a way to it. `credential` is the key's name, never the key."""

    provider: Provider
    model: Model
    credential: str = "default"
    within: float | None = None
    """Seconds for one whole answer; None: as long as the turn has."""

    @property
    def key(self) -> Route:
        return Route(self.provider.name, self.credential, self.model.name)


_OF_THE_KEY: Final = (AuthFailed, QuotaExceeded)
"""What says something about the key, whatever model was asked."""
_OF_BOTH: Final = (RateLimited,)
"""About this key at this model. Everything else is about the model alone: no other key would wake its server."""


LONGEST: Final = 3_600.0
"""Seconds. Who asks for more is asked again after these: it costs one refusal, and nobody is left out for a slip."""


class Cooldowns:
    """The cooldowns of routes to models."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._until: dict[tuple[str, str, str, str], float] = {}
        self._failures: dict[tuple[str, str, str, str], int] = {}

    @property
    def any(self) -> bool:
        """Somebody may be cooling. Nearly always nobody is."""
        return bool(self._until)

    def note(self, route: Route, error: ProviderError, cools: tuple[float, ...], at_least: float = 0.0) -> None:
        """A failure that cools: each one in a row longer than the last, and as long as the provider asked, within
        reason.
        """
        if not cools:
            return
        key = _key(route, type(error))
        failures = self._failures[key] = self._failures.get(key, 0) + 1
        seconds = min(max(cools[min(failures, len(cools)) - 1], at_least), LONGEST)
        self._until[key] = self._clock.monotonic() + seconds

    def note_answer(self, route: Route) -> None:
        """It works again: nothing that was noted about it counts any more."""
        for key in [key for key in self._until if _covers(key, route)]:
            del self._until[key]
            del self._failures[key]

    def remaining(self, route: Route) -> float:
        """Seconds for which nobody should ask there; 0 when it may be asked."""
        now = self._clock.monotonic()
        return max((0.0, *(until - now for key, until in self._until.items() if _covers(key, route))))


def _key(route: Route, kind: type[ProviderError]) -> tuple[str, str, str, str]:
    """What is empty stands for every one."""
    credential = route.credential if issubclass(kind, (*_OF_THE_KEY, *_OF_BOTH)) else ""
    model = "" if issubclass(kind, _OF_THE_KEY) else route.model
    return (route.provider, credential, model, kind.__name__)


def _covers(key: tuple[str, str, str, str], route: Route) -> bool:
    provider, credential, model, _ = key
    return provider == route.provider and credential in ("", route.credential) and model in ("", route.model)
