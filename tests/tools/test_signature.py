"""`@tool` on a plain function: annotations and docstring are all a model needs."""

import threading
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from msgspec import Meta, Struct

from finclaw.errors import ExtensionError, InvalidArguments
from finclaw.kernel.envelope import Sender
from finclaw.kernel.port import Tool, ToolOutput, ToolScope
from finclaw.tools.define import DefinedTool, raw_tool, read_docstring, tool
from finclaw.tools.result_guard import NO_RESULT

SCOPE = ToolScope(session="s", turn_id="t", call_id="c", sender=Sender("u"))


class Side(Enum):
    """Which way."""

    BUY = "buy"
    SELL = "sell"


class Leg(Struct):
    symbol: str
    weight: Decimal = Decimal(1)


@dataclass
class Span:
    start: date
    end: date | None = None


@tool
async def quote(symbol: str, currency: Literal["KRW", "USD"] = "KRW", *, scope: ToolScope) -> str:
    """Looks up a price,
    now.

    This is for whoever reads the code.

    Args:
        symbol: Ticker, such as AAPL
            or 005930.
        currency (str): What to tell it in.
        scope: Not for models.

    Returns:
        symbol: not an argument.
    """
    return f"{symbol} in {currency} for {scope.sender.id}"


@tool(group="finance", sensitive=True, upstream="api.example.com")
def everything(
    side: Side,
    span: Span,
    legs: list[Leg],
    limit: Annotated[int, Meta(ge=1, description="At most.")] = 5,
    note: str | None = None,
    price: Decimal = Decimal("1.5"),
    tags: dict[str, int] = {},  # noqa: B006
) -> dict[str, Any]:
    """Takes everything.

    Args:
        side: Buy or sell.
        limit: not this
    """
    return {
        "side": side.name,
        "days": (span.end - span.start).days if span.end else None,
        "weight": sum((leg.weight for leg in legs), Decimal(0)),
        "limit": limit,
        "note": note,
        "price": price,
        "thread": threading.current_thread().name,
    }


@pytest.mark.spec("T-04", "T-05", "T-22", "DX-24")
async def test_a_function_is_told_to_the_model_by_its_signature_and_docstring() -> None:
    assert (quote.spec.name, quote.spec.description) == ("test_signature__quote", "Looks up a price, now.")
    assert quote.spec.input_schema == {
        "type": "object",
        "properties": {
            "symbol": {"type": "string", "description": "Ticker, such as AAPL or 005930."},
            "currency": {"enum": ["KRW", "USD"], "default": "KRW", "description": "What to tell it in."},
        },
        "required": ["symbol"],
        "additionalProperties": False,
    }
    made: Tool = quote
    assert (await made.run({"symbol": "AAPL"}, SCOPE)).content == "AAPL in KRW for u"


@pytest.mark.spec("T-02", "T-05")
async def test_every_type_that_json_can_hold() -> None:
    properties = everything.spec.input_schema["properties"]
    assert properties["side"] == {"enum": ["buy", "sell"], "description": "Buy or sell."}
    assert properties["limit"] == {"type": "integer", "minimum": 1, "description": "At most.", "default": 5}
    assert properties["price"] == {"type": "string", "format": "decimal", "default": "1.5"}
    assert properties["note"] == {"type": "string"}, "left out or told: no model pays for a null beside it"
    assert properties["span"]["properties"]["start"] == {"type": "string", "format": "date"}
    assert "$ref" not in str(everything.spec.input_schema)
    fields = (everything.group, everything.sensitive, everything.upstream, everything.approval, everything.isolation)
    assert fields == ("finance", True, "api.example.com", False, "thread")
    given = {
        "side": "sell",
        "span": {"start": "2025-01-01", "end": "2025-01-08"},
        "legs": [{"symbol": "A"}, {"symbol": "B", "weight": "0.5"}],
    }
    told = (await everything.run(given, SCOPE)).content
    assert told == (
        '{"side":"SELL","days":7,"weight":"1.5","limit":5,"note":null,"price":"1.5","thread":"finclaw-tool"}'
    )


async def test_a_struct_that_is_the_only_argument_gives_its_fields() -> None:
    @tool("leg__add", "Adds one.")
    async def add(leg: Leg, scope: ToolScope) -> ToolOutput:
        return ToolOutput(f"{leg.symbol} {leg.weight}")

    assert list(add.spec.input_schema["properties"]) == ["symbol", "weight"]
    assert (await add.run({"symbol": "A", "weight": "2"}, SCOPE)).content == "A 2"


async def test_arguments_of_another_shape_never_reach_the_function() -> None:
    with pytest.raises(InvalidArguments, match=r"everything.*legs"):
        await everything.run({"side": "buy", "span": {"start": "2025-01-01"}, "legs": 3}, SCOPE)


async def test_a_tool_without_arguments() -> None:
    @tool
    async def now() -> None:
        """Tells nothing."""

    assert now.spec.input_schema["properties"] == {}
    assert (await now.run({}, SCOPE)).content == NO_RESULT


def _plain(symbol: str) -> str:
    """Looks."""
    return symbol


def _undescribed(symbol: str) -> str:
    return symbol


def _unannotated(symbol: str) -> str:
    """Looks."""
    return symbol


del _unannotated.__annotations__["symbol"]


def _star(*symbols: str) -> str:
    """Looks."""
    return ""


def _keywords(**options: str) -> str:
    """Looks."""
    return ""


def _positional(symbol: str, /) -> str:
    """Looks."""
    return symbol


def _complex(number: complex) -> str:
    """Looks."""
    return str(number)


def _wrong_default(number: int = None) -> str:  # pyright: ignore[reportArgumentType]  # noqa: RUF013
    """Looks."""
    return str(number)


def _full_default(numbers: list[int] = [1]) -> str:  # noqa: B006
    """Looks."""
    return str(numbers)


def _unknown_type(number: int) -> str:
    """Looks."""
    return str(number)


_unknown_type.__annotations__["number"] = "Nowhere"


def _describes_another(symbol: str) -> str:
    """Looks.

    Args:
        symbl: a slip
    """
    return symbol


class Holder:
    def method(self, symbol: str) -> str:
        """Looks."""
        return symbol


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        (_undescribed, "docstring"),
        (_unannotated, "annotate 'symbol'"),
        (_star, "one by one"),
        (_keywords, "one by one"),
        (_positional, "'/'"),
        (_complex, "there is no JSON for it"),
        (_wrong_default, "None"),
        (_full_default, "must be empty"),
        (_unknown_type, "Nowhere.*import"),
        (_describes_another, "'symbl'"),
        (Holder.method, "bound method"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_what_cannot_be_told_to_a_model_is_refused_with_advice(function: Any, advice: str) -> None:
    with pytest.raises(ExtensionError, match=rf"tool .*{advice}"):
        tool(function)


def test_a_bound_method_and_a_name_of_its_own() -> None:
    made = tool("holder__look")(Holder().method)
    assert (made.spec.name, list(made.spec.input_schema["properties"])) == ("holder__look", ["symbol"])


def test_a_function_without_a_name_needs_one() -> None:
    with pytest.raises(ExtensionError, match="give one"):
        tool(lambda: "")


def test_options_that_are_none() -> None:
    with pytest.raises(ExtensionError, match="there is no grup; there is group"):
        tool(grup="x")(_plain)  # pyright: ignore[reportCallIssue]
    with pytest.raises(ExtensionError, match="take away its `async`"):
        tool("a__b", "C.", isolation="thread")(quote.function)
    with pytest.raises(ExtensionError, match="top of a module"):
        tool("a__b", "C.", isolation="process")(Holder().method)


@pytest.mark.spec("T-01")
async def test_a_schema_that_somebody_else_wrote() -> None:
    schema = {"type": "object", "properties": {"q": {"$ref": "#/$defs/q"}}, "$defs": {"q": {"type": "string"}}}

    async def look(args: dict[str, Any], scope: ToolScope) -> list[str]:
        return [args["q"], scope.call_id]

    made = raw_tool("mcp__look", "Looks.", schema, look, upstream="mcp:one", timeout=3)
    assert made.spec.input_schema is schema
    assert (await made.run({"q": "x"}, SCOPE)).content == '["x","c"]'
    assert isinstance(made, DefinedTool)


@pytest.mark.parametrize("schema", [{}, {"type": "array"}, {"type": "object", "properties": {"a": {"type": "objekt"}}}])
def test_a_raw_schema_that_is_none(schema: dict[str, Any]) -> None:
    async def look(args: dict[str, Any], scope: ToolScope) -> str:
        return ""

    with pytest.raises(ExtensionError, match="mcp__look"):
        raw_tool("mcp__look", "Looks.", schema, look)


def test_a_docstring_of_no_particular_form() -> None:
    def odd() -> None:
        """Args:
        x: 1
          more

            and more
        """

    assert read_docstring(odd).description == ""
    assert read_docstring(lambda: None).description == ""
