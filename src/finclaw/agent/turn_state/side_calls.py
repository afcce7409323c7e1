"""Side calls that a turn makes for itself: nobody sees their answers, each is paid for, and none outlives the turn."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from finclaw.cancellation import asked_to_stop
from finclaw.errors import TurnStopped

T = TypeVar("T")


class SideCalls:
    """The side calls of one turn.

    A tool that was left behind may still wait for an answer when the books are closed.
    """

    def __init__(self) -> None:
        self._under_way: dict[asyncio.Task[Any], Callable[[], None]] = {}
        self._closed = False

    async def ask(self, question: Coroutine[Any, Any, T], settle: Callable[[], None]) -> T:
        """`settle` pays for what has come of its answer by then. Raises TurnStopped when the turn ends first."""
        if self._closed:
            question.close()
            raise TurnStopped("the turn is over, and asks nothing more")
        asked = asyncio.create_task(question)
        self._under_way[asked] = settle
        try:
            return await asked
        except asyncio.CancelledError:
            if asked_to_stop() or not self._closed:
                raise
            raise TurnStopped("the turn was over before the model had answered") from None
        finally:
            del self._under_way[asked]

    def close(self) -> None:
        """At once, and without waiting: what is told of the turn right behind this is all that it has spent."""
        self._closed = True
        for asked, settle in self._under_way.items():
            settle()
            asked.cancel()
