"""The registry of all tools by name, with their sources; and the circuit breakers of what they depend on.

A breaker stands before each upstream: one that keeps failing to answer is left alone for a while, and then tried by
one call. Only timeouts and failures that say they are passing count. A denial, a wrong argument, a stopped turn and a
tool's own bug tell nothing about the upstream."""

import re
from collections import deque
from collections.abc import Callable, Generator
from contextlib import contextmanager
from datetime import datetime
from typing import Final

from msgspec import Struct

from finclaw.clock import SystemClock
from finclaw.errors import (
    ExtensionError,
    InvalidArguments,
    ToolAwaiting,
    ToolDenied,
    ToolError,
    ToolStopped,
    ToolTimeout,
    ToolUnavailable,
)
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.event import Circuit
from finclaw.kernel.port import Clock, Tool
from finclaw.tools.time_limit import CutOff

OPEN_AT: Final = 5  # failures in the window, if they are half of the calls there
WINDOW: Final = 60.0
SHORTEST_REST: Final = 30.0
LONGEST_REST: Final = 300.0  # seconds without calls, doubled by each failed try
_MOST_REMEMBERED: Final = 200

_NO_WORD_OF_IT: Final = (InvalidArguments, ToolDenied, ToolAwaiting, ToolStopped, CutOff)
"""Errors that our own side made: nobody asked the upstream."""

Tell = Callable[[Circuit, Circuit], None]


class Breaker:
    def __init__(self, clock: Clock) -> None:
        self.state: Circuit = "closed"
        self._clock = clock
        self._recent: deque[tuple[float, bool]] = deque(maxlen=_MOST_REMEMBERED)
        self._rest = SHORTEST_REST
        self._opened_at = 0.0
        self._trying = False

    def admit(self, upstream: str, tell: Tell) -> bool:
        """Whether this call is the one that tries. Raises ToolUnavailable for those that must wait."""
        if self.state == "closed":
            return False
        left = self._opened_at + self._rest - self._clock.monotonic()
        if left > 0 or self._trying:
            raise _resting(upstream, max(1.0, left))
        self._trying = True
        if self.state == "open":
            self._move("half_open", tell)
        return True

    def record_answer(self, tell: Tell, *, tries: bool) -> None:
        if tries:
            self._recent.clear()
            self._rest = SHORTEST_REST
            self._move("closed", tell)
        elif self.state == "closed":
            self._note(failed=False)

    def record_failure(self, tell: Tell, *, tries: bool) -> None:
        """Calls that were on their way when it opened say nothing new."""
        if tries:
            self._rest = min(self._rest * 2, LONGEST_REST)
            self._open(tell)
        elif self.state == "closed":
            self._note(failed=True)
            failures = sum(failed for _, failed in self._recent)
            if failures >= OPEN_AT and failures * 2 >= len(self._recent):
                self._open(tell)

    def end_trial(self) -> None:
        """Whatever came of the try, and also if nothing did: the next one may."""
        self._trying = False

    def _note(self, *, failed: bool) -> None:
        now = self._clock.monotonic()
        self._recent.append((now, failed))
        while self._recent[0][0] <= now - WINDOW:
            self._recent.popleft()

    def _open(self, tell: Tell) -> None:
        self._opened_at = self._clock.monotonic()
        self._move("open", tell)

    def _move(self, after: Circuit, tell: Tell) -> None:
        before = self.state
        self.state = after
        tell(before, after)


class Breakers:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._known: dict[str, Breaker] = {}

    def state(self, upstream: str) -> Circuit:
        if upstream not in self._known:
            return "closed"
        return self._known[upstream].state

    def forget(self, upstream: str) -> None:
        """Nothing of it is left, or it is there anew: it begins with a clean sheet."""
        self._known.pop(upstream, None)

    @contextmanager
    def call(self, upstream: str, tell: Tell) -> Generator[None]:
        """One call of a tool. Raises ToolUnavailable instead while the upstream is left alone; "" is never."""
        if not upstream:
            yield
            return
        breaker = self._known.setdefault(upstream, Breaker(self._clock))
        tries = breaker.admit(upstream, tell)
        try:
            yield
        except (ToolTimeout, ToolUnavailable, ConnectionError, TimeoutError):
            breaker.record_failure(tell, tries=tries)
            raise
        except ToolError as error:
            if not isinstance(error, _NO_WORD_OF_IT):  # a refusal is an answer too
                breaker.record_answer(tell, tries=tries)
            raise
        else:
            breaker.record_answer(tell, tries=tries)
        finally:
            if tries:
                breaker.end_trial()


def _resting(upstream: str, seconds: float) -> ToolUnavailable:
    return ToolUnavailable(
        f"{upstream} has not answered several times and is left alone for now; try again in {seconds:.0f} s, "
        "or go on without it and say so",
        code="circuit_open",
        retry_after=seconds,
    )


_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,64}")  # what every model API takes
_FIELDS: Final = (
    *("group", "transactional", "parallel_safe", "timeout", "approval", "sensitive", "upstream", "isolation", "quote"),
    *("changes", "own_results"),
)


class ToolEntry(Struct, frozen=True):
    """A registered tool. `source` is the extension that brought it, or `builtin`, `mcp`, `skill`."""

    tool: Tool
    source: str
    registered_at: datetime


class ToolRegistry:
    def __init__(self, clock: Clock | None = None) -> None:
        self._clock = clock or SystemClock()
        self._entries: dict[str, ToolEntry] = {}
        self._specs: tuple[ToolSpec, ...] | None = None
        self.breakers: Final = Breakers(self._clock)

    def register(self, tool: Tool, source: str = "builtin") -> None:
        name = tool.spec.name
        if not _NAME.fullmatch(name):
            raise ExtensionError(f"tool name {name!r}: use 1 to 64 letters, digits, '_' or '-', as in 'market__quote'")
        if (former := self._entries.get(name)) is not None:
            raise ExtensionError(
                f"tool {name!r} is already registered by {former.source!r}, and now by {source!r}; "
                "choose another name or unregister it first"
            )
        if missing := [field for field in _FIELDS if not hasattr(tool, field)]:
            raise ExtensionError(
                f"tool {name!r} does not say its {', '.join(missing)}; make it with @tool, or inherit from finclaw.Tool"
            )
        self._entries[name] = ToolEntry(tool, source, self._clock.now())
        self._specs = None

    def unregister(self, name: str) -> bool:
        """False if there was none. What was held against its upstream goes with the last tool that needs it."""
        gone = self._entries.pop(name, None)
        self._specs = None
        if gone is not None and not any(each.tool.upstream == gone.tool.upstream for each in self._entries.values()):
            self.breakers.forget(gone.tool.upstream)
        return gone is not None

    def get(self, name: str) -> Tool | None:
        entry = self._entries.get(name)
        return entry and entry.tool

    def has(self, name: str) -> bool:
        return name in self._entries

    def entry(self, name: str) -> ToolEntry | None:
        return self._entries.get(name)

    def list(self) -> tuple[Tool, ...]:
        """In the order in which they were registered."""
        return tuple(entry.tool for entry in self._entries.values())

    def list_by_group(self, group: str) -> tuple[Tool, ...]:
        return tuple(tool for tool in self.list() if tool.group == group)

    def specs(self) -> tuple[ToolSpec, ...]:
        """As models see them, in an order that no start-up changes: a provider's cache keys on these bytes."""
        if self._specs is None:
            self._specs = tuple(sorted([tool.spec for tool in self.list()], key=lambda spec: spec.name))
        return self._specs
