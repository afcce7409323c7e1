"""An extension's own settings as a struct. What does not fit is said with what would."""

from typing import TypeVar

from msgspec import Struct, ValidationError, convert
from msgspec.structs import fields

from finclaw.errors import ExtensionError
from finclaw.kernel.extension import ExtensionApi

S = TypeVar("S", bound=Struct)


def read_settings(api: ExtensionApi, kind: type[S]) -> S:
    """Raises ExtensionError, which stops the start: a setting that is misspelt must not be silently ignored."""
    try:
        return convert(dict(api.settings), kind)
    except ValidationError as error:
        known = ", ".join(each.name for each in fields(kind))
        raise ExtensionError(f"its settings do not fit: {error}; there are: {known}") from error
