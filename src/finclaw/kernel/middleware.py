"""Middleware: layers around a core. One `compose` builds all five rings, once, at start-up.

First listed is outermost; a lower priority is further out, stable for equals. A layer gets the call's context,
may change it, and goes inward with `await ctx.next()`, at most once. A layer that does not go inward answers
itself, with a valid result of its ring: a short circuit, which observers see.
"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from dataclasses import dataclass
from inspect import CORO_CREATED, getcoroutinestate
from types import CoroutineType
from typing import Any, Final, Generic, TypeVar

from msgspec import ValidationError, convert, to_builtins

from finclaw.errors import ExtensionError
from finclaw.kernel.event import ShortCircuited
from finclaw.kernel.scope import Scope

R = TypeVar("R")
C = TypeVar("C", bound=Scope[Any])
Seen_contra = TypeVar("Seen_contra", contravariant=True)
Given_co = TypeVar("Given_co", covariant=True)

LEFT_BEHIND_GRACE: Final = 0.75
"""Seconds for an inside to stop that its layer did not wait for; a person who stopped the turn waits for this too."""


@dataclass(frozen=True, slots=True)
class Layer(Generic[Seen_contra, Given_co]):
    """A layer: a named function around a core. `why` is the reason for its place, printed beside it."""

    name: str
    run: Callable[[Seen_contra], Awaitable[Given_co]]
    priority: int = 0
    why: str = ""


class Passage(Generic[R]):
    """One layer's way inward: open once, and to be waited for."""

    __slots__ = ("_core", "_ctx", "_inner", "_walk", "_walker", "_where", "answer", "finished", "opened")

    def __init__(self, where: str, inner: "Ring[Any, R]", ctx: Scope[Any], core: "Core[Any, R]") -> None:
        self._where = where
        self._inner = inner
        self._ctx = ctx
        self._core = core
        self._walk: Coroutine[Any, Any, R] | None = None
        self._walker: asyncio.Task[Any] | None = None
        self.opened = False
        self.finished = False
        self.answer: R | None = None

    def __call__(self) -> Awaitable[R]:
        if self.opened:
            raise ExtensionError(f"{self._where} called ctx.next() twice; it may go inward at most once")
        self.opened = True
        self._walk = self._go()
        return self._walk

    async def _go(self) -> R:
        self._walker = asyncio.current_task()
        try:
            self.answer = await self._inner(self._ctx, self._core)
            return self.answer
        finally:
            self.finished = True

    def drop(self) -> None:
        """Let go of a way inward that was opened and never begun: nobody else has it."""
        if isinstance(self._walk, CoroutineType) and getcoroutinestate(self._walk) == CORO_CREATED:
            self._walk.close()

    async def end(self) -> None:
        """See to it that nothing goes on inside once the layer is gone, not even in a task of its own."""
        self.drop()
        walker = self._walker
        if not self.finished and walker is not None and walker is not asyncio.current_task():
            walker.cancel()
            await asyncio.wait([walker], timeout=LEFT_BEHIND_GRACE)


Core = Callable[[C], Coroutine[Any, Any, R]]
"""What lies inside a ring."""
Ring = Callable[[C, Core[C, R]], Coroutine[Any, Any, R]]
"""Layers around a core that is given with each call."""


def compose(ring: str, layers: Iterable[Layer[C, R]], core: Core[C, R], result: type[R]) -> Core[C, R]:
    """Fold the layers around the core, outermost first, into one function."""
    around = compose_ring(ring, layers, result)
    return lambda ctx: around(ctx, core)


def compose_ring(ring: str, layers: Iterable[Layer[C, R]], result: type[R]) -> Ring[C, R]:
    """Fold the layers into one function around a core given with each call, whose state they cannot reach."""
    around: Ring[C, R] = _run_core
    for layer in reversed(sorted(layers, key=lambda each: each.priority)):
        around = _wrap(ring, layer, around, result)
    return around


def _run_core(ctx: C, core: Core[C, R]) -> Coroutine[Any, Any, R]:
    return core(ctx)


def _wrap(ring: str, layer: Layer[C, R], inner: Ring[C, R], result: type[R]) -> Ring[C, R]:
    where = f"layer {layer.name!r} of ring {ring!r}"

    async def enter(ctx: C, core: Core[C, R]) -> R:
        passage = Passage(where, inner, ctx, core)
        outer, ctx.next = ctx.next, passage
        try:
            answer = await layer.run(ctx)
        except GeneratorExit:  # the loop is gone; nothing can be waited for any more
            passage.drop()
            raise
        except BaseException:
            await passage.end()
            raise
        finally:
            ctx.next = outer
        if passage.opened and not passage.finished:
            await passage.end()
            raise ExtensionError(f"{where} returned before its inside was done; is an await missing?")
        if answer is None or answer is not passage.answer:
            _must_be(result, answer, where)
        if not passage.opened:
            ctx.emit(ShortCircuited(ring=ring, layer=layer.name, **ctx.ids))
        return answer

    return enter


def _must_be(result: type[R], answer: object, where: str) -> None:
    """A layer need not be typed, and a result that nobody can read again must not get as far as the disk."""
    if not isinstance(answer, result):
        raise ExtensionError(f"{where} returned {type(answer).__name__}, not {result.__name__}; return a result")
    try:
        # Metadata may hold what it likes; where a type is asked for, None will not pass for it.
        convert(to_builtins(answer, enc_hook=lambda _: None), result)
    except ValidationError as error:
        raise ExtensionError(f"{where} returned a {result.__name__} that is none: {error}") from error
