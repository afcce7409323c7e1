"""A route to a model: its provider, the key that is used there, and the model itself."""

from typing import NamedTuple

from msgspec import Struct

from finclaw.kernel.chunk import Model
from finclaw.kernel.port import Provider


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
