"""The onion. One `compose` builds all five rings, once, at start-up.

First listed is outermost; a lower priority is further out, stable for equals. A layer gets the call's context,
may change it, and goes inward with `await ctx.next()`, at most once. A layer that does not go inward answers
itself, with a valid result of its ring: a short circuit, which observers see.
"""

from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from inspect import CORO_CREATED, getcoroutinestate
from types import CoroutineType
from typing import Any, Generic, TypeVar

from finclaw.errors import ExtensionError
from finclaw.kernel.event import ShortCircuited
from finclaw.kernel.scope import Scope

R = TypeVar("R")
C = TypeVar("C", bound=Scope[Any])
Seen_contra = TypeVar("Seen_contra", contravariant=True)
Given_co = TypeVar("Given_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Layer(Generic[Seen_contra, Given_co]):
    """A named function around a noun. `why` is the reason for its place, printed beside it."""

    name: str
    run: Callable[[Seen_contra], Awaitable[Given_co]]
    priority: int = 0
    why: str = ""


class Passage(Generic[R]):
    """One layer's way inward: open once, and to be waited for."""

    __slots__ = ("_inward", "_where", "_walk", "finished", "opened")

    def __init__(self, where: str, inward: Callable[[], Coroutine[Any, Any, R]]) -> None:
        self._where = where
        self._inward = inward
        self._walk: Coroutine[Any, Any, R] | None = None
        self.opened = False
        self.finished = False

    def __call__(self) -> Awaitable[R]:
        if self.opened:
            raise ExtensionError(f"{self._where} called ctx.next() twice; it may go inward at most once")
        self.opened = True
        self._walk = self._go()
        return self._walk

    async def _go(self) -> R:
        try:
            return await self._inward()
        finally:
            self.finished = True

    def drop(self) -> None:
        """Let go of a way inward that was opened and never begun: nobody else has it."""
        if isinstance(self._walk, CoroutineType) and getcoroutinestate(self._walk) == CORO_CREATED:
            self._walk.close()

    def must_be_finished(self) -> None:
        if self.opened and not self.finished:
            self.drop()
            raise ExtensionError(f"{self._where} returned before its inside was done; is an await missing?")


def compose(
    ring: str,
    layers: Iterable[Layer[C, R]],
    core: Callable[[C], Coroutine[Any, Any, R]],
    result: type[R],
) -> Callable[[C], Coroutine[Any, Any, R]]:
    """Fold the layers around the core, outermost first, into one function."""
    handler = core
    for layer in reversed(sorted(layers, key=lambda each: each.priority)):
        handler = _wrap(ring, layer, handler, result)
    return handler


def _wrap(
    ring: str,
    layer: Layer[C, R],
    inner: Callable[[C], Coroutine[Any, Any, R]],
    result: type[R],
) -> Callable[[C], Coroutine[Any, Any, R]]:
    where = f"layer {layer.name!r} of ring {ring!r}"

    async def enter(ctx: C) -> R:
        passage = Passage(where, lambda: inner(ctx))
        outer, ctx.next = ctx.next, passage
        try:
            answer = await layer.run(ctx)
        except BaseException:
            passage.drop()
            raise
        finally:
            ctx.next = outer
        passage.must_be_finished()
        if not isinstance(answer, result):
            raise ExtensionError(f"{where} returned {type(answer).__name__}, not {result.__name__}; return a result")
        if not passage.opened:
            ctx.emit(ShortCircuited(ring=ring, layer=layer.name, **ctx.ids))
        return answer

    return enter
