"""A clock in virtual time, which passes only when no task has anything left to do.

`clock.run(main())` runs a coroutine on an event loop that takes its time from the clock, so `asyncio.sleep`,
`asyncio.timeout` and `loop.call_later` all wait in virtual time. When nothing is ready, time jumps to the next
timer; a day costs a microsecond and every run of a test is the same. Work on other threads is not overtaken:
`run_in_executor` holds time still by itself, anything else says so with `clock.busy()` or `clock.hold(port)`.
"""

import asyncio
import inspect
import selectors
import threading
from collections.abc import Callable, Coroutine, Generator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from functools import wraps
from typing import Any, TypeVar, cast

T = TypeVar("T")

EPOCH = datetime(2025, 1, 6, 9, 0, tzinfo=UTC)  # a Monday morning; any fixed instant would do


class ClockStuck(RuntimeError):
    """A deadlock in virtual time: every task waits, and no timer is set."""


class FakeClock:
    """The Clock port in virtual time.

    `grace` is how long, in real seconds, open sockets get to speak before time moves on; loops without sockets
    never wait. `patience` bounds, in real seconds, how long a busy thread may hold time still.
    """

    def __init__(self, start: datetime = EPOCH, *, grace: float = 0.002, patience: float = 30.0) -> None:
        if start.tzinfo is None:
            raise ValueError("the start of a FakeClock must be an aware datetime")
        self.grace = grace
        self.patience = patience
        self._wall = start.astimezone(UTC)
        self._elapsed = 0.0
        self._lock = threading.Lock()
        self._held = 0
        self._loop: asyncio.AbstractEventLoop | None = None

    def now(self) -> datetime:
        return self._wall + timedelta(seconds=self._elapsed)

    def monotonic(self) -> float:
        return self._elapsed

    async def sleep(self, seconds: float) -> None:
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("a FakeClock sleeps only inside clock.run(...); this loop runs in real time")
        await asyncio.sleep(seconds)

    def run(self, main: Coroutine[Any, Any, T]) -> T:
        """Run to the end in virtual time. Not inside a running loop: the test itself is an ordinary function."""
        with asyncio.Runner(loop_factory=self.new_loop) as runner:
            return runner.run(main)

    def new_loop(self) -> asyncio.AbstractEventLoop:
        """For whoever has a runner of their own. One loop at a time, or two would share one time."""
        if self._loop is not None and not self._loop.is_closed():
            raise RuntimeError("this clock already drives a loop")
        self._loop = _VirtualLoop(self)
        return self._loop

    def jump(self, by: timedelta) -> None:
        """The operator set the wall clock. Timers and `monotonic` do not notice."""
        self._wall += by

    def advance(self, seconds: float) -> None:
        """Let time pass by hand, for code that only reads the clock."""
        if seconds < 0:
            raise ValueError("time does not run backwards; use jump() to set the wall clock")
        self._elapsed += seconds

    @contextmanager
    def busy(self) -> Generator[None]:
        """Inside, from any thread, time stands still: the loop waits for real until somebody wakes it."""
        with self._lock:
            self._held += 1
        try:
            yield
        finally:
            with self._lock:
                self._held -= 1
            self._wake()

    @property
    def is_busy(self) -> bool:
        return self._held > 0

    def hold(self, port: T) -> T:
        """The same port, with time standing still during each of its async calls: for a store with a thread."""
        return cast(T, _Held(port, self))

    def _wake(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(lambda: None)


class _VirtualLoop(asyncio.SelectorEventLoop):
    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        super().__init__(_VirtualSelector(clock))

    def time(self) -> float:
        return self._clock.monotonic()

    def run_in_executor(self, executor: Any, func: Callable[..., T], *args: Any) -> asyncio.Future[T]:  # pyright: ignore[reportIncompatibleMethodOverride]
        held = self._clock.busy()
        held.__enter__()
        future = super().run_in_executor(executor, func, *args)
        future.add_done_callback(lambda _: held.__exit__(None, None, None))
        return future

    async def shutdown_default_executor(self, *args: Any, **kwargs: Any) -> None:
        with self._clock.busy():  # it waits for a thread of its own
            await super().shutdown_default_executor(*args, **kwargs)


class _VirtualSelector(selectors.BaseSelector):
    """Asks the real selector first; when that has nothing, moves the clock instead of waiting."""

    def __init__(self, clock: FakeClock) -> None:
        self._clock = clock
        self._real = selectors.DefaultSelector()

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self._clock.is_busy:
            return self._wait_for_threads()
        # A loopback packet can need a moment to come round. The loop's own wake-up pipe is not such a socket.
        if len(self._real.get_map()) > 1 and (ready := self._real.select(self._clock.grace)):
            return ready
        if self._clock.is_busy:
            return []
        if timeout is None:
            raise ClockStuck(f"nothing is ready, no timer is set and no thread is busy; waiting: {_describe_tasks()}")
        self._clock.advance(timeout)
        return []

    def _wait_for_threads(self) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(self._clock.patience)
        if not ready:
            raise ClockStuck(
                f"time was held still for {self._clock.patience} real seconds; waiting: {_describe_tasks()}"
            )
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.register(fileobj, events, data)

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        return self._real.unregister(fileobj)

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()

    def close(self) -> None:
        self._real.close()


def _describe_tasks() -> str:
    """Where each task stands, so that a stuck test tells its own story."""
    places: list[str] = []
    for task in asyncio.all_tasks():
        frames = task.get_stack(limit=1)
        where = f"{frames[0].f_code.co_qualname}:{frames[0].f_lineno}" if frames else "not started"
        places.append(f"{task.get_name()} at {where}")
    return "; ".join(sorted(places)) or "no task"


class _Held:
    """Any object, with `busy` around each call that gives an awaitable."""

    def __init__(self, port: object, clock: FakeClock) -> None:
        self._port = port
        self._clock = clock

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._port, name)
        if not inspect.iscoroutinefunction(value):
            return value

        @wraps(value)
        async def call(*args: Any, **kwargs: Any) -> Any:
            with self._clock.busy():
                return await value(*args, **kwargs)

        return call
