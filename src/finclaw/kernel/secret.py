"""A secret that cannot be printed by accident: not by a log line, an error, a trace or a debugger's repr."""

from collections.abc import Callable
from typing import Final

from finclaw.redaction import remember_secret


class Secret:
    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value: Final = value
        remember_secret(value)  # from here on it is hidden wherever it turns up

    def reveal(self) -> str:
        """The only way to the value, so that every use can be found by its name."""
        return self._value

    def __repr__(self) -> str:
        return "Secret(***)"

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._value == self._value

    def __hash__(self) -> int:
        return hash(self._value)

    def __reduce__(self) -> str | tuple[object, ...]:
        raise TypeError("a Secret is never pickled or copied to disk")


Follow = Callable[[str, object], Secret]
"""From a setting's name and what stands there, such as `env:NAME`, to the secret. Raises ConfigError."""
