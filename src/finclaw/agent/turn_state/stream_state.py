"""The state machine of a run's stream, with its one table of moves. The run owns it; nobody else moves it."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, Literal

State = Literal["idle", "streaming", "tool_use", "executing", "done", "failed", "aborted"]

MOVES: Final[Mapping[State, tuple[State, ...]]] = MappingProxyType(
    {
        # A resumed turn whose log ends with the model's wish for tools begins with that wish. A turn that a layer
        # answers itself is done without a model call, and one may fail or be stopped before its first.
        "idle": ("streaming", "tool_use", "done", "failed", "aborted"),
        # To itself: the model is called anew after a failure, or once more although it asked for no tool.
        "streaming": ("streaming", "tool_use", "done", "failed", "aborted"),
        # Refused and skipped calls get their results like all others, so there is no way around executing.
        "tool_use": ("executing", "failed", "aborted"),
        "executing": ("streaming", "done", "failed", "aborted"),
        "done": ("idle",),
        "failed": ("idle",),
        "aborted": ("idle",),
    }
)

Announce = Callable[[State, State], None]
"""Told the state before and after each move. It must not raise: an event stream contains its observers."""


class InvalidMove(RuntimeError):
    """Not a FinclawError: our own loop went wrong, and `except FinclawError` must never hide that."""

    def __init__(self, before: State, after: State) -> None:
        super().__init__(f"a stream cannot go from {before} to {after}; allowed: {', '.join(MOVES[before])}")
        self.before: State = before
        self.after: State = after


class StateMachine:
    """A state machine that allows the moves of the table only."""

    def __init__(self, emit: Announce) -> None:
        self._emit = emit
        self._state: State = "idle"

    @property
    def state(self) -> State:
        return self._state

    @property
    def running(self) -> bool:
        return self._state in ("streaming", "tool_use", "executing")

    def move(self, after: State) -> None:
        before = self._state
        if after not in MOVES[before]:
            raise InvalidMove(before, after)
        self._state = after
        self._emit(before, after)

    def reset(self) -> None:
        """Back to idle from anywhere. What still runs is aborted first, so that the table has no hidden edges."""
        if self.running:
            self.move("aborted")
        if self._state != "idle":
            self.move("idle")
