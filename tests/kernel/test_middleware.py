"""The onion: order, both guards, short circuits, and one shared context."""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.errors import ExtensionError
from finclaw.kernel.event import Event, ShortCircuited
from finclaw.kernel.middleware import Layer, compose
from finclaw.kernel.scope import Ids, Scope

Run = Callable[["Call"], Awaitable[str]]


@dataclass(slots=True, kw_only=True)
class Call(Scope[str]):
    """The context of a ring that carries texts."""

    word: str = "core"


def a_call(events: list[Event] | None = None) -> Call:
    heard: list[Event] = [] if events is None else events
    return Call(ids=Ids(session="s", inbound_id="m", turn_id="t"), emit=heard.append)


async def core(ctx: Call) -> str:
    return ctx.word


def around(name: str) -> Run:
    async def layer(ctx: Call) -> str:
        return f"{name}({await ctx.next()})"

    return layer


def ring(*layers: Layer[Call, str]) -> Callable[[Call], Awaitable[str]]:
    return compose("test", layers, core, str)


async def test_the_first_listed_is_outermost() -> None:
    assert await ring(Layer("a", around("a")), Layer("b", around("b")))(a_call()) == "a(b(core))"


async def test_no_layer_at_all_is_the_core() -> None:
    assert await ring()(a_call()) == "core"


async def test_a_lower_priority_is_further_out_and_equals_keep_their_order() -> None:
    layers = [Layer("A", around("A"), 10), Layer("B", around("B"), 5), Layer("C", around("C"), 10)]
    assert await ring(*layers)(a_call()) == "B(A(C(core)))"


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


async def test_next_twice_at_the_same_time_is_refused_too() -> None:
    async def both(ctx: Call) -> str:
        first, _ = await asyncio.gather(ctx.next(), ctx.next())
        return first

    with pytest.raises(ExtensionError, match="twice"):
        await ring(Layer("both", both))(a_call())


async def test_a_missing_await_is_found_and_leaves_no_warning() -> None:
    async def forgetful(ctx: Call) -> str:
        ctx.next()  # pyright: ignore[reportUnusedCoroutine]
        return "early"

    with pytest.raises(ExtensionError, match="is an await missing"):
        await ring(Layer("forgetful", forgetful))(a_call())


async def test_a_layer_that_leaves_its_inside_running_is_found() -> None:
    release = asyncio.Event()

    async def slow_core(ctx: Call) -> str:
        await release.wait()
        return "late"

    tasks: list[Any] = []

    async def hasty(ctx: Call) -> str:
        tasks.append(asyncio.ensure_future(ctx.next()))
        await asyncio.sleep(0)
        return "early"

    with pytest.raises(ExtensionError, match="before its inside was done"):
        await compose("test", [Layer("hasty", hasty)], slow_core, str)(a_call())
    release.set()
    assert await tasks[0] == "late"


@pytest.mark.parametrize("answer", [None, 7, b"bytes"])
async def test_what_is_no_result_of_the_ring_is_refused(answer: Any) -> None:
    async def wrong(ctx: Call) -> str:
        return answer

    with pytest.raises(ExtensionError, match=f"returned {type(answer).__name__}, not str"):
        await ring(Layer("wrong", wrong))(a_call())


async def test_a_short_circuit_is_valid_and_observed() -> None:
    heard: list[Event] = []
    layers = [Layer("outer", around("outer")), Layer("cache", _stop), Layer("inner", around("inner"))]
    assert await ring(*layers)(a_call(heard)) == "outer(stopped)"
    assert heard == [ShortCircuited(ring="test", layer="cache", session="s", inbound_id="m", turn_id="t")]


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
        Call(ids=Ids(session="", inbound_id="", turn_id=""), emit=lambda event: None, word=str(n)) for n in range(20)
    ]
    assert await asyncio.gather(*map(composed, calls)) == [str(n) for n in range(20)]  # pyright: ignore[reportArgumentType, reportCallIssue]


async def test_metadata_looks_up_through_its_parents_and_writes_to_its_own() -> None:
    outer = a_call()
    outer.metadata["who"] = "outer"
    inner = Call(ids=outer.ids, emit=outer.emit, metadata=outer.metadata.new_child())
    assert inner.metadata["who"] == "outer"
    inner.metadata["who"] = "inner"
    assert (outer.metadata["who"], inner.metadata["who"]) == ("outer", "inner")
    outer.metadata["late"] = True
    assert inner.metadata["late"]
