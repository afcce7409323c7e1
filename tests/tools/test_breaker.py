"""The circuit breakers: what counts, when they open, who is let through to try."""

import asyncio
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.errors import (
    InvalidArguments,
    ToolAwaiting,
    ToolDenied,
    ToolError,
    ToolStopped,
    ToolTimeout,
    ToolUnavailable,
)
from finclaw.testing import FakeClock
from finclaw.tools.define import tool
from finclaw.tools.registry import LONGEST_REST, OPEN_AT, SHORTEST_REST, WINDOW, Breakers, ToolRegistry

UP = "api.example.com"


def silent(before: str, after: str) -> None:
    """Nobody listens."""


class Bench:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.breakers = Breakers(self.clock)
        self.moves: list[tuple[str, str]] = []

    def call(self, error: BaseException | None = None, upstream: str = UP) -> None:
        with self.breakers.call(upstream, self._tell):
            if error is not None:
                raise error

    def fail(self, times: int = 1, error: Callable[[], BaseException] = lambda: ToolTimeout("slow")) -> None:
        for _ in range(times):
            failure = error()
            with pytest.raises(type(failure)):
                self.call(failure)

    def refused(self) -> ToolUnavailable:
        with pytest.raises(ToolUnavailable) as caught:
            self.call()
        assert caught.value.code == "circuit_open"
        return caught.value

    def _tell(self, before: str, after: str) -> None:
        self.moves.append((before, after))

    @property
    def state(self) -> str:
        return self.breakers.state(UP)


@pytest.mark.spec("T-19", "DX-26", "E-10")
@pytest.mark.parametrize("error", [ToolTimeout, ToolUnavailable, ConnectionError, TimeoutError])
def test_it_opens_after_five_and_says_when_to_come_again(error: type[Exception]) -> None:
    bench = Bench()
    bench.fail(OPEN_AT - 1, lambda: error("no"))
    assert bench.state == "closed"
    bench.fail(1, lambda: error("no"))
    assert (bench.state, bench.moves) == ("open", [("closed", "open")])
    bench.clock.advance(10)
    refusal = bench.refused()
    assert refusal.retry_after == SHORTEST_REST - 10
    assert "try again in 20 s" in str(refusal)


@pytest.mark.spec("DX-26")
@pytest.mark.parametrize(
    "error",
    [
        ToolError("no such symbol"),
        ToolDenied("no"),
        InvalidArguments("no"),
        ToolStopped("no"),
        ToolAwaiting("no"),
        ValueError("a bug"),
        asyncio.CancelledError(),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_says_nothing_about_the_upstream_never_opens_it(error: BaseException) -> None:
    bench = Bench()
    bench.fail(50, lambda: error)
    assert (bench.state, bench.moves) == ("closed", [])


def test_old_failures_are_forgotten() -> None:
    bench = Bench()
    bench.fail(OPEN_AT - 1)
    bench.clock.advance(WINDOW)
    bench.fail(OPEN_AT - 1)
    assert bench.state == "closed"


def test_a_busy_upstream_may_fail_now_and_then() -> None:
    bench = Bench()
    for _ in range(20):
        bench.fail()
        bench.call()
        bench.call()
    assert bench.state == "closed"


def test_one_tries_and_the_others_wait_for_what_comes_of_it() -> None:
    bench = Bench()
    bench.fail(OPEN_AT)
    bench.clock.advance(SHORTEST_REST)
    with bench.breakers.call(UP, silent):
        assert bench.state == "half_open"
        bench.refused()
    assert bench.state == "closed"
    bench.call()


def test_each_try_that_fails_makes_the_rest_longer_up_to_a_limit() -> None:
    bench = Bench()
    bench.fail(OPEN_AT)
    rests: list[float] = []
    rest = SHORTEST_REST
    for _ in range(6):
        bench.clock.advance(rest)
        bench.fail()
        rest = bench.refused().retry_after or 0
        rests.append(rest)
    assert rests == [60, 120, 240, LONGEST_REST, LONGEST_REST, LONGEST_REST]
    bench.clock.advance(rest)
    bench.call()
    bench.fail(OPEN_AT)
    assert bench.refused().retry_after == SHORTEST_REST


@pytest.mark.parametrize("error", [asyncio.CancelledError(), ValueError("a bug"), InvalidArguments("no")])
def test_a_try_that_tells_nothing_lets_another_try(error: BaseException) -> None:
    bench = Bench()
    bench.fail(OPEN_AT)
    bench.clock.advance(SHORTEST_REST)
    bench.fail(1, lambda: error)
    assert bench.state == "half_open"
    bench.call()
    assert bench.state == "closed"


def test_an_answer_that_was_a_refusal_closes_it() -> None:
    bench = Bench()
    bench.fail(OPEN_AT)
    bench.clock.advance(SHORTEST_REST)
    bench.fail(1, lambda: ToolError("no such symbol"))
    assert bench.state == "closed"


def test_calls_that_were_on_their_way_change_nothing() -> None:
    bench = Bench()
    with bench.breakers.call(UP, bench._tell):  # pyright: ignore[reportPrivateUsage]
        bench.fail(OPEN_AT)
    assert bench.state == "open"


def test_upstreams_do_not_answer_for_each_other_and_what_has_none_is_never_left_alone() -> None:
    bench = Bench()
    bench.fail(OPEN_AT)
    bench.call(upstream="other.example.com")
    for _ in range(20):
        with pytest.raises(ToolTimeout):
            bench.call(ToolTimeout("slow"), upstream="")


@pytest.mark.spec("DX-26", "T-10")
def test_it_goes_with_the_last_tool_of_its_upstream() -> None:
    def named(name: str) -> None:
        async def nothing() -> None: ...

        registry.register(tool(name, "Does nothing.", upstream=UP)(nothing), "mcp")

    clock = FakeClock()
    registry = ToolRegistry(clock)
    named("a__one")
    named("a__two")
    for _ in range(OPEN_AT):
        with pytest.raises(ToolTimeout), registry.breakers.call(UP, silent):
            raise ToolTimeout("slow")
    registry.unregister("a__one")
    assert registry.breakers.state(UP) == "open"
    registry.unregister("a__two")
    assert registry.breakers.state(UP) == "closed"


@given(st.lists(st.sampled_from(["ok", "timeout", "bug", "wait"]), max_size=60))
def test_it_never_stays_shut_for_longer_than_the_longest_rest(steps: list[str]) -> None:
    bench, waits = Bench(), list[float]()
    for step in steps:
        if step == "wait":
            bench.clock.advance(17)
            continue
        error = {"ok": None, "timeout": ToolTimeout("slow"), "bug": ValueError()}[step]
        try:
            bench.call(error)
        except ToolUnavailable as refusal:
            waits.append(refusal.retry_after or 0)
        except (ToolTimeout, ValueError):
            pass
    assert all(0 < wait <= LONGEST_REST for wait in waits)
    bench.clock.advance(LONGEST_REST)
    bench.call()
    assert bench.state == "closed"
