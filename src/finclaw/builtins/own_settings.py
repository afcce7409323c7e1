"""Settings of a built-in extension as a struct. What does not fit is said with what would."""

from typing import TypeVar

from msgspec import Struct

from finclaw.kernel.extension import ExtensionApi

S = TypeVar("S", bound=Struct)


def read_settings(api: ExtensionApi, kind: type[S]) -> S:
    """Raises ExtensionError, which stops the start: a setting that is misspelt must not be silently ignored."""
    return api.read_settings(kind)
