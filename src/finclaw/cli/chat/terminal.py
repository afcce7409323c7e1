"""The keyboard while no line is read: what is typed waits unseen for the next prompt, and Ctrl-C is an event."""

import signal
import sys
import termios
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from finclaw.cli.chat.event_queue import EventQueue, Interrupted

_LOCAL = 3
"""Where `tcgetattr` keeps the local modes."""


@contextmanager
def interrupts_to(events: EventQueue) -> Generator[None]:
    """Inside, Ctrl-C raises nothing: an exception at a random instant could lose an event that was just taken out."""

    def handle_interrupt(_: int, __: FrameType | None) -> None:
        events.put(Interrupted())

    before = signal.signal(signal.SIGINT, handle_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interrupts_raise(look: Callable[[], None]) -> Generator[None]:
    """Inside, Ctrl-C is a KeyboardInterrupt again, as `input` needs it; `look` is called just before."""

    def handle_interrupt(_: int, __: FrameType | None) -> None:
        look()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, handle_interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def quiet_keys() -> Generator[None]:
    """Keys neither show between the lines of an answer nor get lost. Ctrl-D, too, keeps its meaning for the prompt."""
    try:
        before: list[Any] = termios.tcgetattr(sys.stdin)
    except (termios.error, OSError, ValueError):
        yield
        return
    quiet = list(before)
    quiet[_LOCAL] &= ~(termios.ECHO | termios.ICANON)
    termios.tcsetattr(sys.stdin, termios.TCSADRAIN, quiet)
    try:
        yield
    finally:
        termios.tcsetattr(sys.stdin, termios.TCSADRAIN, before)
