"""Attribution of errors to an extension and its line: its author should not have to read our trace to find theirs."""

import os
import traceback
from pathlib import Path

from finclaw.errors import ExtensionError


def attribute_error(name: str, origin: str, error: BaseException) -> ExtensionError:
    """`extension 'x' (x.py, line 12): NameError: …`. `origin` is its file, as far as it is known."""
    line = _line(origin, error)
    where = f" ({origin}{f', line {line}' if line else ''})" if origin else ""
    # Our own errors are written for a person; of anybody else's the kind says half of it.
    says = str(error) if isinstance(error, ExtensionError) else f"{type(error).__name__}: {error}"
    return ExtensionError(f"extension {name!r}{where}: {says}")


def origin_of(thing: object) -> str:
    """The file in which an object with `register` was written, if it can be told."""
    register = getattr(thing, "register", thing)
    code = getattr(getattr(register, "__func__", register), "__code__", None)
    return "" if code is None else str(code.co_filename)


def _line(origin: str, error: BaseException) -> int | None:
    if isinstance(error, SyntaxError) and error.filename == origin:
        return error.lineno
    # A package's own modules are as much its own as the first one.
    root = str(Path(origin).parent) + os.sep if Path(origin).name == "__init__.py" else origin
    own = (frame for frame in traceback.extract_tb(error.__traceback__) if frame.filename.startswith(root))
    return max((frame.lineno or 0 for frame in list(own)[-1:]), default=None)
