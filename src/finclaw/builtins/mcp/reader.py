"""A reader of tool definitions: each definition is read and compiled once, off the event loop, within a time budget.

Compiling a schema holds Python's global lock, and a server may send two hundred schemas and others a second later.
"""

import asyncio
import time
from collections.abc import Sequence
from typing import Final

from msgspec import Struct

from finclaw.builtins.mcp.definition import Definition, spec_of
from finclaw.errors import ExtensionError
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.port import Clock

_MOST_SECONDS: Final = 3.0
"""Of processor time for the definitions of one server; what was used comes back within `_REFILL` seconds."""
_REFILL: Final = 60.0
_LONGEST: Final = 0.25
"""Seconds of processor time for one definition. The bounds on its schema are such that it takes a fraction of that."""
_MOST_KEPT: Final = 1_000
"""Definitions whose outcome is remembered."""
LATER: Final = "its server has used up the time for reading definitions, 3 s a minute; it is read a little later"


class ReadTool(Struct, frozen=True):
    """A definition that was read: with the spec for the model, or with the reason why there is none."""

    definition: Definition
    digest: str = ""
    text: str = ""
    spec: ToolSpec | None = None
    problem: str = ""
    is_waiting: bool = False
    """There was no time for it yet."""


class DefinitionReader:
    def __init__(self, server: str, clock: Clock) -> None:
        self._server = server
        self._clock = clock
        self._known: dict[str, ReadTool] = {}
        self._seconds = _MOST_SECONDS
        self._refilled_at = clock.monotonic()

    async def read(self, definitions: Sequence[Definition]) -> list[ReadTool]:
        self._refill()
        return [await self._read_in_time(each) for each in definitions]

    async def _read_in_time(self, definition: Definition) -> ReadTool:
        if self._seconds <= 0:
            return ReadTool(definition, problem=LATER, is_waiting=True)
        # One at a time, and in a thread: the event loop runs in between.
        found, took = await asyncio.to_thread(self._read_timed, definition)
        self._seconds -= took
        return found

    def _read_timed(self, definition: Definition) -> tuple[ReadTool, float]:
        began = time.thread_time()
        found = self._read(definition)
        took = time.thread_time() - began
        if took > _LONGEST and found.spec is not None:
            problem = f"its schema took {took:.1f} s to compile, and {_LONGEST:g} s is the most"
            found = ReadTool(definition, found.digest, found.text, problem=problem)
        if found.digest:
            self._keep(found)
        return found, took

    def _read(self, definition: Definition) -> ReadTool:
        try:
            text = definition.text()
        except ExtensionError as error:
            return ReadTool(definition, problem=str(error))
        digest = definition.digest_of(text)
        if (known := self._known.get(digest)) is not None:
            return known
        try:
            return ReadTool(definition, digest, text, spec_of(self._server, definition))
        except ExtensionError as error:
            return ReadTool(definition, digest, text, problem=str(error))
        except RecursionError:
            return ReadTool(definition, digest, text, problem="its schema is nested too deep")

    def _keep(self, found: ReadTool) -> None:
        while len(self._known) >= _MOST_KEPT:
            del self._known[next(iter(self._known))]
        self._known[found.digest] = found

    def _refill(self) -> None:
        now = self._clock.monotonic()
        self._seconds = min(_MOST_SECONDS, self._seconds + (now - self._refilled_at) * _MOST_SECONDS / _REFILL)
        self._refilled_at = now
