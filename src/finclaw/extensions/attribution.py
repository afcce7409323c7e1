"""Attribution of errors to an extension and its line: its author should not have to read our trace to find theirs."""

import os
import traceback
from pathlib import Path

from finclaw.errors import ExtensionError


def attribute_error(name: str, origin: str, error: BaseException) -> ExtensionError:
    """`extension 'x' (x.py, line 12): NameError: …`. `origin` is its file, as far as it is known."""
    where = ""
    if origin:
        line = _line(origin, error)
        where = f" ({origin}, line {line})" if line else f" ({origin})"
    says = str(error)
    if not isinstance(error, ExtensionError):  # our own errors are written for a person; others need their kind
        says = f"{type(error).__name__}: {says}"
    return ExtensionError(f"extension {name!r}{where}: {says}")


def origin_of(thing: object) -> str:
    """The file in which an object with `register` was written, if it can be told."""
    register = getattr(thing, "register", thing)
    code = getattr(getattr(register, "__func__", register), "__code__", None)
    return getattr(code, "co_filename", "")


def _line(origin: str, error: BaseException) -> int | None:
    if isinstance(error, SyntaxError) and error.filename == origin:
        return error.lineno
    root = origin
    if Path(origin).name == "__init__.py":  # all modules of a package are the extension's own
        root = str(Path(origin).parent) + os.sep
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(root)]
    return lines[-1] if lines else None
