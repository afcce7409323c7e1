"""The onion: order, both guards, short circuits, and one shared context."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct

from finclaw.errors import ExtensionError
from finclaw.kernel.event import Event, ShortCircuited
from finclaw.kernel.middleware import LEFT_BEHIND_GRACE, Layer, compose
from finclaw.kernel.scope import Ids, Scope

Run = Callable[["Call"], Awaitable[str]]


@dataclass(slots=True, kw_only=True)
class Call(Scope[str]):
    """The context of a ring that carries texts."""

    word: str = "core"


def a_call(events: list[Event] | None = None) -> Call:
    heard: list[Event] = [] if events is None else events
    return Call(ids=Ids(agent="a", session="s", inbound_id="m", turn_id="t"), emit=heard.append)


async def core(ctx: Call) -> str:
    return ctx.word


def around(name: str) -> Run:
    async def layer(ctx: Call) -> str:
        return f"{name}({await ctx.next()})"

    return layer


def ring(*layers: Layer[Call, str]) -> Callable[[Call], Awaitable[str]]:
    return compose("test", layers, core, str)


@pytest.mark.spec("MW-06", "MW-02")
async def test_the_first_listed_is_outermost() -> None:
    assert await ring(Layer("a", around("a")), Layer("b", around("b")))(a_call()) == "a(b(core))"


async def test_no_layer_at_all_is_the_core() -> None:
    assert await ring()(a_call()) == "core"


@pytest.mark.spec("MW-16", "MW-17", "MW-18", "DX-58")
async def test_a_lower_priority_is_further_out_and_equals_keep_their_order() -> None:
    layers = [Layer("A", around("A"), 10), Layer("B", around("B"), 5), Layer("C", around("C"), 10)]
    assert await ring(*layers)(a_call()) == "B(A(C(core)))"


@pytest.mark.spec("MW-17", "MW-30")
@given(st.lists(st.integers(-3, 3), max_size=12))
def test_any_stack_is_sorted_stably_and_every_layer_runs_once(priorities: list[int]) -> None:
    names = [f"{number}:{priority}" for number, priority in enumerate(priorities)]
    layers = [Layer(name, around(name), priority) for name, priority in zip(names, priorities, strict=True)]
    expected = "core"
    for _, name in sorted(zip(priorities, range(len(names)), strict=True), reverse=True):
        expected = f"{names[name]}({expected})"
    assert asyncio.run(as_coroutine(ring(*layers)(a_call()))) == expected


async def as_coroutine(work: Awaitable[str]) -> str:
    return await work


@given(st.lists(st.sampled_from(["pass", "stop", "twice", "raise", "change"]), max_size=8))
def test_any_stack_of_good_and_bad_layers_ends_as_it_must(kinds: list[str]) -> None:
    """The first layer that stops or raises decides; a second next() is seen on the way out."""
    layers = [Layer(f"{place}", BEHAVIOUR[kind]) for place, kind in enumerate(kinds)]
    inner = next((kind for kind in kinds if kind in ("stop", "raise")), None)
    reached = kinds[: kinds.index(inner)] if inner else kinds
    call = a_call()
    if inner == "raise":
        with pytest.raises(LookupError):
            asyncio.run(as_coroutine(ring(*layers)(call)))
    elif "twice" in reached:
        with pytest.raises(ExtensionError, match="twice"):
            asyncio.run(as_coroutine(ring(*layers)(call)))
    else:
        answer = asyncio.run(as_coroutine(ring(*layers)(call)))
        assert answer == ("stopped" if inner == "stop" else "core" + "+" * reached.count("change"))


async def _stop(ctx: Call) -> str:
    return "stopped"


async def _twice(ctx: Call) -> str:
    await ctx.next()
    return await ctx.next()


async def _raise(ctx: Call) -> str:
    raise LookupError("a layer's own")


async def _change(ctx: Call) -> str:
    ctx.word += "+"
    return await ctx.next()


async def _pass(ctx: Call) -> str:
    return await ctx.next()


BEHAVIOUR: dict[str, Run] = {"pass": _pass, "stop": _stop, "twice": _twice, "raise": _raise, "change": _change}


@pytest.mark.spec("MW-04", "DX-55", "RT-07")
async def test_next_twice_is_refused_and_the_inside_ran_once() -> None:
    runs = 0

    async def counted(ctx: Call) -> str:
        nonlocal runs
        runs += 1
        return "core"

    composed = compose("test", [Layer("greedy", _twice)], counted, str)
    with pytest.raises(ExtensionError, match=r"layer 'greedy' of ring 'test' called ctx.next\(\) twice"):
        await composed(a_call())
    assert runs == 1


@pytest.mark.spec("DX-55")
async def test_next_twice_at_the_same_time_is_refused_too() -> None:
    async def both(ctx: Call) -> str:
        first, _ = await asyncio.gather(ctx.next(), ctx.next())
        return first

    with pytest.raises(ExtensionError, match="twice"):
        await ring(Layer("both", both))(a_call())


@pytest.mark.spec("DX-55")
async def test_a_missing_await_is_found_and_leaves_no_warning() -> None:
    async def forgetful(ctx: Call) -> str:
        ctx.next()  # pyright: ignore[reportUnusedCoroutine]
        return "early"

    with pytest.raises(ExtensionError, match="is an await missing"):
        await ring(Layer("forgetful", forgetful))(a_call())


@pytest.mark.spec("DX-55")
async def test_a_layer_that_leaves_its_inside_running_is_found_and_the_inside_stopped() -> None:
    ended: list[str] = []

    async def slow_core(ctx: Call) -> str:
        try:
            return await asyncio.Event().wait() and ""
        finally:
            ended.append("core")

    async def hasty(ctx: Call) -> str:
        self_owned.append(asyncio.ensure_future(ctx.next()))
        await asyncio.sleep(0)
        return "early"

    self_owned: list[asyncio.Future[str]] = []
    with pytest.raises(ExtensionError, match="before its inside was done"):
        await compose("test", [Layer("hasty", hasty)], slow_core, str)(a_call())
    assert (ended, self_owned[0].cancelled()) == (["core"], True)


@pytest.mark.parametrize("way", ["wait", "shield"])
async def test_a_cancelled_layer_takes_along_what_it_only_watches(way: str) -> None:
    """`asyncio.wait` and `asyncio.shield` do not pass a cancellation on; nothing may go on inside all the same."""
    ended: list[str] = []

    async def slow_core(ctx: Call) -> str:
        try:
            return await asyncio.Event().wait() and ""
        finally:
            ended.append("core")

    async def watch(ctx: Call) -> str:
        inside = asyncio.ensure_future(ctx.next())
        await (asyncio.wait([inside]) if way == "wait" else asyncio.shield(inside))
        return inside.result()

    walking = asyncio.ensure_future(compose("test", [Layer("watch", watch)], slow_core, str)(a_call()))
    for _ in range(3):
        await asyncio.sleep(0)
    walking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await walking
    assert ended == ["core"]


async def test_an_inside_that_will_not_stop_is_left_behind_after_a_while() -> None:
    release = asyncio.Event()

    async def stubborn(ctx: Call) -> str:
        while not release.is_set():
            with contextlib.suppress(asyncio.CancelledError):
                await release.wait()
        return "late"

    async def hasty(ctx: Call) -> str:
        tasks.append(asyncio.ensure_future(ctx.next()))
        await asyncio.sleep(0)
        return "early"

    tasks: list[asyncio.Future[str]] = []
    before = asyncio.get_running_loop().time()
    with pytest.raises(ExtensionError, match="before its inside was done"):
        await compose("test", [Layer("hasty", hasty)], stubborn, str)(a_call())
    assert LEFT_BEHIND_GRACE <= asyncio.get_running_loop().time() - before < 10 * LEFT_BEHIND_GRACE
    release.set()
    assert await tasks[0] == "late"


class Told(Struct):
    kind: Literal["yes", "no"]
    metadata: dict[str, Any] = {}


@dataclass(slots=True, kw_only=True)
class Asking(Scope[Told]):
    pass


@pytest.mark.spec("DX-55")
@pytest.mark.parametrize("given", [Told("maybe"), Told("yes", metadata=[1])])  # pyright: ignore[reportArgumentType]
async def test_a_result_that_could_not_be_read_again_is_refused(given: Told) -> None:
    async def core(ctx: Asking) -> Told:
        return Told("yes")

    async def sloppy(ctx: Asking) -> Told:
        await ctx.next()
        return given

    call = Asking(ids=Ids(agent="", session="", inbound_id="", turn_id=""), emit=lambda event: None)
    with pytest.raises(ExtensionError, match="layer 'sloppy' of ring 'test' returned a Told that is none"):
        await compose("test", [Layer("sloppy", sloppy)], core, Told)(call)


async def test_metadata_of_a_result_may_hold_anything() -> None:
    async def core(ctx: Asking) -> Told:
        return Told("no")

    async def add(ctx: Asking) -> Told:
        return Told((await ctx.next()).kind, {"lock": asyncio.Lock()})

    call = Asking(ids=Ids(agent="", session="", inbound_id="", turn_id=""), emit=lambda event: None)
    assert (await compose("test", [Layer("add", add)], core, Told)(call)).kind == "no"


@pytest.mark.spec("DX-55")
@pytest.mark.parametrize("answer", [None, 7, b"bytes"])
async def test_what_is_no_result_of_the_ring_is_refused(answer: Any) -> None:
    async def wrong(ctx: Call) -> str:
        return answer

    with pytest.raises(ExtensionError, match=f"returned {type(answer).__name__}, not str"):
        await ring(Layer("wrong", wrong))(a_call())


@pytest.mark.spec("MW-04", "DX-55")
async def test_a_short_circuit_is_valid_and_observed() -> None:
    heard: list[Event] = []
    layers = [Layer("outer", around("outer")), Layer("cache", _stop), Layer("inner", around("inner"))]
    assert await ring(*layers)(a_call(heard)) == "outer(stopped)"
    assert heard == [ShortCircuited(ring="test", layer="cache", agent="a", session="s", inbound_id="m", turn_id="t")]


@pytest.mark.spec("DX-56")
async def test_what_a_layer_changes_reaches_inner_layers_and_the_core() -> None:
    seen: list[str] = []

    async def look(ctx: Call) -> str:
        seen.append(ctx.word)
        return await ctx.next()

    assert await ring(Layer("change", _change), Layer("look", look), Layer("again", _change))(a_call()) == "core++"
    assert seen == ["core+"]


async def test_errors_pass_through_and_may_be_caught_outside() -> None:
    async def catch(ctx: Call) -> str:
        try:
            return await ctx.next()
        except LookupError as error:
            return f"caught {error}"

    assert await ring(Layer("catch", catch), Layer("raise", _raise))(a_call()) == "caught a layer's own"
    with pytest.raises(LookupError):
        await ring(Layer("pass", _pass), Layer("raise", _raise))(a_call())


async def test_next_belongs_to_the_layer_that_was_given_it() -> None:
    call = a_call()
    with pytest.raises(ExtensionError, match="outside its ring"):
        call.next()
    await ring(Layer("pass", _pass))(call)
    with pytest.raises(ExtensionError, match="outside its ring"):
        call.next()


async def test_a_ring_may_be_walked_by_many_at_once() -> None:
    async def slow(ctx: Call) -> str:
        await asyncio.sleep(0)
        return await ctx.next()

    composed = ring(Layer("slow", slow), Layer("pass", _pass))
    calls = [
        Call(ids=Ids(agent="", session="", inbound_id="", turn_id=""), emit=lambda event: None, word=str(n))
        for n in range(20)
    ]
    assert await asyncio.gather(*map(composed, calls)) == [str(n) for n in range(20)]  # pyright: ignore[reportArgumentType, reportCallIssue]


@pytest.mark.spec("DX-62")
async def test_metadata_looks_up_through_its_parents_and_writes_to_its_own() -> None:
    outer = a_call()
    outer.metadata["who"] = "outer"
    inner = Call(ids=outer.ids, emit=outer.emit, metadata=outer.metadata.new_child())
    assert inner.metadata["who"] == "outer"
    inner.metadata["who"] = "inner"
    assert (outer.metadata["who"], inner.metadata["who"]) == ("outer", "inner")
    outer.metadata["late"] = True
    assert inner.metadata["late"]
