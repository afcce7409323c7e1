from datetime import timedelta
from typing import Any

import pytest
from msgspec import Struct
from tests.tools.own_tool import Own

from finclaw.errors import ExtensionError
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.testing import FakeClock
from finclaw.tools.define import tool
from finclaw.tools.registry import ToolRegistry


class Nothing(Struct):
    pass


def named(name: str, group: str = "custom") -> Tool:
    @tool(name, "Does nothing.", group=group)
    async def nothing(args: Nothing, scope: ToolScope) -> ToolOutput:
        return ToolOutput("")

    return nothing


@pytest.mark.spec("T-10", "T-21")
def test_what_was_registered_is_found_until_it_is_unregistered():
    registry = ToolRegistry()
    quote, send = named("market__quote", "finance"), named("chat__send")
    registry.register(quote)
    registry.register(send)
    assert registry.get("market__quote") is quote
    assert registry.list() == (quote, send)
    assert registry.list_by_group("finance") == (quote,)
    assert registry.unregister("market__quote") is True
    assert registry.unregister("market__quote") is False
    assert registry.get("market__quote") is None


@pytest.mark.spec("T-09", "T-10", "T-21")
def test_each_is_known_with_where_it_comes_from_and_since_when():
    clock = FakeClock()
    registry = ToolRegistry(clock)
    registry.register(named("market__quote"))
    clock.advance(60)
    registry.register(named("files__read"), "mcp")
    first, second = registry.entry("market__quote"), registry.entry("files__read")
    assert first is not None
    assert second is not None
    assert (first.source, second.source) == ("builtin", "mcp")
    assert second.registered_at - first.registered_at == timedelta(minutes=1)
    assert (registry.has("files__read"), registry.has("files__write")) == (True, False)
    assert registry.entry("files__write") is None


class Partly:
    """Made by hand, and before there was so much to say of a tool."""

    spec = ToolSpec("old__one", "Old.", {})
    group = "custom"
    transactional = False
    parallel_safe = True
    timeout = 1.0

    async def run(self, args: Any, scope: ToolScope) -> ToolOutput:
        return ToolOutput("")


def test_a_tool_that_does_not_say_all_there_is_to_know_is_refused():
    with pytest.raises(ExtensionError, match="'old__one' does not say its approval, sensitive, upstream, isolation"):
        ToolRegistry().register(Partly())  # pyright: ignore[reportArgumentType]


def test_a_class_that_inherits_says_what_most_tools_are():
    own = Own()
    ToolRegistry().register(own)
    assert (own.approval, own.sensitive, own.upstream, own.isolation) == (False, False, "", "loop")


@pytest.mark.spec("T-03")
def test_models_get_bare_specs_in_a_stable_order():
    tools = [named("b__two"), named("a__one"), named("c__three")]
    registry = ToolRegistry()
    for each in tools:
        registry.register(each)
    assert registry.specs() == (tools[1].spec, tools[0].spec, tools[2].spec)


@pytest.mark.spec("T-11", "X-02")
def test_a_name_is_taken_once():
    registry = ToolRegistry()
    first = named("market__quote")
    registry.register(first, "finance")
    with pytest.raises(ExtensionError, match="'market__quote' is already registered by 'finance', and now by 'mine'"):
        registry.register(named("market__quote"), "mine")
    assert registry.get("market__quote") is first


@pytest.mark.spec("T-22", "DX-23b")
@pytest.mark.parametrize("name", ["", "with space", "점", "dotted.name", "x" * 65, "line\n"])
def test_a_name_no_model_api_takes_is_refused(name: str):
    with pytest.raises(ExtensionError, match="letters, digits"):
        ToolRegistry().register(named(name))
