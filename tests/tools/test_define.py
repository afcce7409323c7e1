from typing import Annotated, Literal

import pytest
from msgspec import Meta, Struct

from finclaw.errors import ExtensionError, InvalidArguments
from finclaw.kernel.chunk import ToolSpec
from finclaw.kernel.envelope import Sender
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import input_schema, tool

SCOPE = ToolScope(session="s", turn_id="t", call_id="c", sender=Sender("u"))


class Leg(Struct):
    title: str
    weight: float = 1.0


class BasketArguments(Struct, forbid_unknown_fields=True):
    name: Annotated[str, Meta(description="What to call it.")]
    main: Leg
    legs: list[Leg] = []
    side: Literal["long", "short"] = "long"
    dry: bool = True


@tool("basket__make", "Make a basket.", group="finance")
async def make_basket(args: BasketArguments, scope: ToolScope) -> ToolOutput:
    return ToolOutput(f"{args.name}: {args.main.title} {args.side} for {scope.sender.id}")


class Tree(Struct):
    children: list["Tree"] = []


@pytest.mark.spec("T-06")
async def test_a_function_becomes_a_tool():
    made: Tool = make_basket
    output = await made.run({"name": "b", "main": {"title": "AAPL"}}, SCOPE)
    assert output.content == "b: AAPL long for u"
    assert (made.group, made.transactional, made.parallel_safe, made.timeout) == ("finance", False, True, 30.0)


@pytest.mark.spec("T-01")
def test_the_model_sees_three_fields():
    assert ToolSpec.__struct_fields__ == ("name", "description", "input_schema")
    assert (make_basket.spec.name, make_basket.spec.description) == ("basket__make", "Make a basket.")


@pytest.mark.spec("T-04")
def test_the_schema_is_one_plain_object():
    leg = {
        "type": "object",
        "properties": {"title": {"type": "string"}, "weight": {"type": "number", "default": 1.0}},
        "required": ["title"],
        "additionalProperties": False,
    }
    assert make_basket.spec.input_schema == {
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "What to call it."},
            "main": leg,
            "legs": {"type": "array", "items": leg, "default": []},
            "side": {"enum": ["long", "short"], "default": "long"},
            "dry": {"type": "boolean", "default": True},
        },
        "required": ["name", "main"],
        "additionalProperties": False,
    }


def test_arguments_that_contain_themselves_are_refused():
    with pytest.raises(ExtensionError, match="contain themselves"):
        input_schema(Tree)


async def test_arguments_of_another_shape_tell_the_model_what_is_wrong():
    with pytest.raises(InvalidArguments, match=r"basket__make.*`\$\.main`"):
        await make_basket.run({"name": "b", "main": 3}, SCOPE)


def test_what_moves_money_never_runs_beside_another_call():
    async def pay(args: Leg, scope: ToolScope) -> ToolOutput:
        return ToolOutput("paid")

    assert not tool("bank__pay", "Pay.", transactional=True)(pay).parallel_safe
