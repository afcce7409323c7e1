import pytest
from msgspec import Struct

from finclaw.errors import ExtensionError
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import tool
from finclaw.tools.registry import ToolRegistry


class Nothing(Struct):
    pass


def named(name: str, group: str = "custom") -> Tool:
    @tool(name, "Does nothing.", group=group)
    async def nothing(args: Nothing, scope: ToolScope) -> ToolOutput:
        return ToolOutput("")

    return nothing


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


@pytest.mark.spec("T-03")
def test_models_get_bare_specs_in_a_stable_order():
    tools = [named("b__two"), named("a__one"), named("c__three")]
    registry = ToolRegistry()
    for each in tools:
        registry.register(each)
    assert registry.specs() == (tools[1].spec, tools[0].spec, tools[2].spec)


@pytest.mark.spec("T-11")
def test_a_name_is_taken_once():
    registry = ToolRegistry()
    first = named("market__quote")
    registry.register(first)
    with pytest.raises(ExtensionError, match="already registered"):
        registry.register(named("market__quote"))
    assert registry.get("market__quote") is first


@pytest.mark.parametrize("name", ["", "with space", "점", "dotted.name", "x" * 65, "line\n"])
def test_a_name_no_model_api_takes_is_refused(name: str):
    with pytest.raises(ExtensionError, match="letters, digits"):
        ToolRegistry().register(named(name))
