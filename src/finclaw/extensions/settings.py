"""Settings of an extension as a struct: an error says what would fit, and secrets are followed."""

import re
from collections.abc import Mapping
from typing import Any, NoReturn, TypeVar

from msgspec import Struct, ValidationError, convert
from msgspec.structs import fields

from finclaw.errors import ConfigError, ExtensionError
from finclaw.redaction import Follow, Secret

S = TypeVar("S", bound=Struct)


def read_settings(settings: Mapping[str, Any], kind: type[S], follow: Follow) -> S:
    """Raises ConfigError for a secret that is not where its reference says, ExtensionError for all that does not fit.
    Either stops the start: a setting that is misspelt must not be silently ignored."""
    reader = _Reader(follow)
    try:
        return convert(dict(settings), kind, dec_hook=reader.read)
    except ValidationError as error:
        reader.complain(error)
        known = ", ".join(each.name for each in fields(kind))
        raise ExtensionError(f"its settings do not fit: {error}; there are: {known}") from error


class _Reader:
    """Only the error that comes out of `convert` tells where in the settings it happened."""

    def __init__(self, follow: Follow) -> None:
        self._follow = follow
        self._refused: list[object] = []

    def read(self, kind: type, value: object) -> Secret:
        if kind is not Secret:
            raise ExtensionError(f"settings cannot be read as {kind.__name__}; take text, numbers, lists or Secret")
        if isinstance(value, Secret):
            return value
        try:
            return self._follow("", value)
        except ConfigError as error:
            self._refused.append(value)
            raise ValueError("a secret") from error

    def complain(self, error: ValidationError) -> None:
        """In the words of whoever follows references, who now hears the setting's name."""
        if self._refused:
            at = re.search(r"`\$\.([^`]*)`$", str(error))
            self._follow(f"settings.{at[1] if at else ''}", self._refused[-1])


def refuse_reference(setting: str, _: object) -> NoReturn:
    """For settings that a program made itself: no file is near, and no environment was handed over."""
    where = "env:NAME and file:PATH are followed in settings that were loaded"
    raise ConfigError(f"{setting} must be a finclaw.Secret here; {where}")
