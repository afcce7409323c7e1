"""Containment of a tool's failures: an exit, a fork or any exception stays with the tool."""

import os
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

FORKED: Final = 70
"""How a child exits that a tool forked and forgot: it must not go on as a second gateway."""


class Broken(Exception):
    """A tool ended with something that would end more than the tool, such as SystemExit; `kind` is its name."""

    def __init__(self, kind: str) -> None:
        super().__init__(f"it ended with {kind}")
        self.kind = kind


def as_exception(error: BaseException) -> Exception:
    """The same, for code that can only bear exceptions. StopIteration is none: coroutines and futures choke on it."""
    plain = isinstance(error, Exception) and not isinstance(error, StopIteration)
    return error if plain else Broken(type(error).__name__)  # pyright: ignore[reportReturnType]  it was just looked at


@contextmanager
def in_this_process() -> Generator[None]:
    """What comes out of the block in a forked child goes no further."""
    home = os.getpid()
    try:
        yield
    finally:
        if os.getpid() != home:
            os._exit(FORKED)
