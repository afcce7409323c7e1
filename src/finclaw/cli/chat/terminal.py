"""The keyboard while nobody reads a line: what is typed waits unseen for the next prompt, and Ctrl-C is news."""

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

    def pressed(_: int, __: FrameType | None) -> None:
        events.put(Interrupted())

    before = signal.signal(signal.SIGINT, pressed)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def interrupts_raise(look: Callable[[], None]) -> Generator[None]:
    """Inside, Ctrl-C is a KeyboardInterrupt again, as `input` needs it; `look` is called just before."""

    def pressed(_: int, __: FrameType | None) -> None:
        look()
        _glance_no_more()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, pressed)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _glance_no_more() -> None:
    """Not even if it is due already: `input` looks for signals on its way out, and breaks when it finds one there."""
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, lambda _, __: None)
    signal.raise_signal(signal.SIGALRM)  # one that waits is taken along


@contextmanager
def glancing(every: float, glance: Callable[[], None]) -> Generator[None]:
    """Inside, `glance` is called now and then by the thread that waits for keys, in between. Ctrl-C waits for it."""

    is_looking = False

    def due(_: int, __: FrameType | None) -> None:
        nonlocal is_looking
        if is_looking:  # a slow terminal: the next glance is due before this one is over
            return
        is_looking, pressed = True, list[int]()
        # Not masked: another thread would take the signal then, and hand it to this one in the middle of the glance.
        heed = signal.signal(signal.SIGINT, lambda number, _: pressed.append(number))
        try:
            glance()
        finally:
            signal.signal(signal.SIGINT, heed)
            is_looking = False
            for each in pressed[:1]:
                signal.raise_signal(each)

    before = signal.signal(signal.SIGALRM, due)
    signal.setitimer(signal.ITIMER_REAL, every, every)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


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
