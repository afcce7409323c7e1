"""Extensions register through one page; one that fails is named and leaves nothing behind."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec import Struct

from finclaw.errors import ExtensionError
from finclaw.kernel.event import Event, EventStream, StepStarted
from finclaw.kernel.extension import RING_NAMES, ExtensionApi
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.pipeline.registrar import Registrar
from finclaw.tools.define import tool


class Extending:
    """An extension that is one function."""

    def __init__(self, register: Callable[[ExtensionApi], None], name: str = "mine") -> None:
        self.name = name
        self._register = register

    def register(self, api: ExtensionApi) -> None:
        self._register(api)


def a_tool(name: str) -> Tool:
    @tool(name, "Does nothing.")
    async def nothing(args: Struct, scope: ToolScope) -> ToolOutput:
        return ToolOutput("")

    return nothing


async def layer(ctx: Any) -> Any:
    return await ctx.next()


async def close() -> None:
    pass


def test_everything_is_kept_in_order() -> None:
    def register(api: ExtensionApi) -> None:
        for ring in RING_NAMES:
            api.pipeline.register(ring, layer, priority=7)
        api.tools.register(a_tool("one"))
        api.prompt.section("Title", "text")
        api.on_close(close)
        api.logger.debug("hello")

    registrar = Registrar(EventStream())
    registrar.load([Extending(register)])
    for ring in RING_NAMES:
        (found,) = registrar.layers(ring)
        assert (found.name, found.priority) == ("mine.layer", 7)
    assert [each.spec.name for each in registrar.tools.list()] == ["one"]
    assert registrar.sections == [("Title", "text")]
    assert registrar.closers == [close]


def test_an_unknown_ring_is_refused() -> None:
    def register(api: ExtensionApi) -> None:
        api.pipeline.register("stage", layer)  # pyright: ignore[reportArgumentType, reportCallIssue]

    with pytest.raises(ExtensionError, match=r"'mine' could not be registered.*no ring 'stage'"):
        Registrar(EventStream()).load([Extending(register)])


def test_one_that_fails_half_way_leaves_nothing_behind() -> None:
    def register(api: ExtensionApi) -> None:
        api.tools.register(a_tool("one"))
        api.prompt.section("Title", "text")
        raise RuntimeError("a bug")

    registrar = Registrar(EventStream())
    with pytest.raises(ExtensionError, match="extension 'mine' could not be registered: RuntimeError: a bug"):
        registrar.load([Extending(register)])
    assert (registrar.tools.list(), registrar.sections) == ((), [])


def test_one_whose_tool_is_taken_is_named_and_leaves_nothing_behind() -> None:
    def first(api: ExtensionApi) -> None:
        api.tools.register(a_tool("taken"))

    def second(api: ExtensionApi) -> None:
        api.tools.register(a_tool("fresh"))
        api.tools.register(a_tool("taken"))
        api.prompt.section("Title", "text")

    registrar = Registrar(EventStream())
    registrar.load([Extending(first)])
    with pytest.raises(ExtensionError, match=r"extension 'other' could not be registered.*'taken' is already"):
        registrar.load([Extending(second, "other")])
    assert [each.spec.name for each in registrar.tools.list()] == ["taken"]
    assert registrar.sections == []


def test_an_extension_may_watch_and_stop_watching() -> None:
    heard: list[Event] = []
    stops: list[Callable[[], None]] = []

    def register(api: ExtensionApi) -> None:
        stops.append(api.events.observe(heard.append))

    registrar = Registrar(EventStream())
    registrar.load([Extending(register)])
    registrar.events.emit(StepStarted(step=1))
    stops[0]()
    stops[0]()
    registrar.events.emit(StepStarted(step=2))
    assert heard == [StepStarted(step=1)]
