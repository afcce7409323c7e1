"""The keyboard while nobody reads a line: what is typed waits unseen for the next prompt, and Ctrl-C is news."""

import signal
import sys
import termios
from collections.abc import Callable, Generator
from contextlib import contextmanager
from types import FrameType
from typing import Any

from finclaw.cli.chat.feed import Feed, Interrupted

_LOCAL = 3
"""Where `tcgetattr` keeps the local modes."""


@contextmanager
def interrupts_to(feed: Feed) -> Generator[None]:
    """Inside, Ctrl-C raises nothing: an exception at a random instant could lose an event that was just taken out."""

    def pressed(_: int, __: FrameType | None) -> None:
        feed.put(Interrupted())

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
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, pressed)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


@contextmanager
def glancing(every: float, glance: Callable[[], None]) -> Generator[None]:
    """Inside, `glance` is called now and then by the thread that waits for keys, in between. Ctrl-C waits for it."""

    def due(_: int, __: FrameType | None) -> None:
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            glance()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)

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
