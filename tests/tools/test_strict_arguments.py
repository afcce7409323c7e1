"""Security trial H3a and L3: what a card shows is what the tool takes, at every level, to the last digit."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypedDict

import pytest
from msgspec import Struct

from finclaw.errors import InvalidArguments
from finclaw.kernel.chunk import ToolSpec
from finclaw.tools.arguments import ArgumentCheck
from finclaw.tools.define import tool
from finclaw.tools.strict_arguments import check_strict_arguments


class Point(Struct, array_like=True):
    x: int
    y: int = 0


class Leg(Struct):
    symbol: str
    weight: float = 1.0


class Options(TypedDict, total=False):
    note: str


class Pair(NamedTuple):
    one: int
    two: int


@dataclass
class Span:
    days: int


class Limit(Struct, tag=True):
    price: float


class Market(Struct, tag=True):
    pass


class Order(Struct):
    symbol: str
    legs: list[Leg] = []
    by_name: dict[str, Leg] = {}
    point: Point | None = None
    options: Options | None = None
    pair: Pair | None = None
    span: Span | None = None
    kind: Limit | Market | None = None
    free: dict[str, Any] = {}
    quantity: float = 1.0


@tool("broker__order", "Buys.")
async def order(args: Order) -> str:
    return args.symbol


@tool("broker__plain", "Buys.")
async def plain(symbol: str, legs: list[Leg] | None = None) -> str:
    return symbol


def check(args: dict[str, Any]) -> dict[str, Any]:
    return ArgumentCheck().check(order.spec, {"symbol": "AAPL", **args}).args


HIDDEN: dict[str, dict[str, Any]] = {
    "dry_run": {"dry_run": True},
    "Quantity": {"Quantity": 1},
    "note": {"note": "test only, nothing is bought"},
    "legs[0].max_total": {"legs": [{"symbol": "AAPL", "max_total": 5}]},
    "by_name.a.dry_run": {"by_name": {"a": {"symbol": "AAPL", "dry_run": True}}},
    "point": {"point": [1, 2, 3]},
    "options.dry_run": {"options": {"dry_run": True}},
    "pair": {"pair": [1, 2, 3]},
    "span.hours": {"span": {"days": 1, "hours": 1}},
    "kind.max": {"kind": {"type": "Limit", "price": 1.5, "max": 2}},
    "kind.price": {"kind": {"type": "Market", "price": 1.5}},
}


@pytest.mark.parametrize("name", HIDDEN)
def test_a_struct_tool_refuses_what_it_would_ignore(name: str) -> None:
    """Security trial H3a, in every place in which a struct ignores what it does not know."""
    with pytest.raises(InvalidArguments) as refused:
        check(HIDDEN[name])
    assert name.rpartition(".")[2].partition("[")[0] in str(refused.value)


def test_what_a_tool_takes_still_fits() -> None:
    given: dict[str, Any] = {
        "legs": [{"symbol": "AAPL", "weight": 2}],
        "by_name": {"any name": {"symbol": "AAPL"}},
        "point": [1],
        "options": {"note": "x"},
        "pair": [1, 2],
        "span": {"days": 3},
        "kind": {"type": "Market"},
        "free": {"anything": {"at": "all"}},
    }
    args = check(given)
    check_strict_arguments(order.spec, args)
    assert args["legs"] == given["legs"]


def test_the_structs_below_a_plain_functions_arguments_are_closed_too() -> None:
    """Security trial H3a: the function's own names were checked before, and no struct below them."""
    with pytest.raises(InvalidArguments, match="dry_run"):
        ArgumentCheck().check(plain.spec, {"symbol": "A", "legs": [{"symbol": "A", "dry_run": True}]})


# ── schemas that somebody else wrote ────────────────────────────────────────────────────────────────────────


def spec(schema: dict[str, Any]) -> ToolSpec:
    return ToolSpec("server__buy", "Buys.", {"type": "object", **schema})


BUY = {"symbol": {"type": "string"}, "quantity": {"type": "integer"}}
OPEN: dict[str, tuple[dict[str, Any], dict[str, Any], str]] = {
    "undeclared": ({"properties": BUY}, {"symbol": "A", "dry_run": True}, "dry_run: there is no such argument"),
    "no properties at all": ({}, {"dry_run": True}, "dry_run"),
    "below": (
        {"properties": {"order": {"type": "object", "properties": BUY}}},
        {"order": {"symbol": "A", "dry_run": True}},
        "order.dry_run",
    ),
    "in a list": (
        {"properties": {"orders": {"type": "array", "items": {"properties": BUY}}}},
        {"orders": [{"symbol": "A"}, {"dry_run": True}]},
        "orders[1].dry_run",
    ),
    "behind a reference": (
        {"properties": {"order": {"$ref": "#/$defs/buy"}}, "$defs": {"buy": {"properties": BUY}}},
        {"order": {"dry_run": True}},
        "order.dry_run",
    ),
    "beside alternatives": (
        {"anyOf": [{"properties": {"a": {}}}, {"properties": {"b": {}}}]},
        {"a": 1, "b": 2, "c": 3},
        "c: there is no such argument",
    ),
    "in the values of a map": (
        {"properties": {"m": {"additionalProperties": {"properties": BUY}}}},
        {"m": {"k": {"dry_run": 1}}},
        "m.k.dry_run",
    ),
    "behind the last place": (
        {"properties": {"pair": {"prefixItems": [{}, {}]}}},
        {"pair": [1, 2, "dry run"]},
        "pair[2]",
    ),
}


@pytest.mark.parametrize("name", OPEN)
def test_an_open_schema_is_taken_as_closed_where_a_person_is_asked(name: str) -> None:
    """Security trial H3a: most MCP servers leave `additionalProperties` out."""
    schema, args, words = OPEN[name]
    with pytest.raises(InvalidArguments) as refused:
        check_strict_arguments(spec(schema), args)
    assert words in str(refused.value)
    assert "server__buy" in str(refused.value)


@pytest.mark.parametrize(
    "schema",
    [
        {"additionalProperties": True},
        {"properties": BUY, "additionalProperties": {"type": "string"}},
        {"patternProperties": {"^x": {}}},
        {"allOf": [{"properties": BUY}, {"additionalProperties": True}]},
        {"properties": {"extra": {"type": "object"}}},
        {"properties": {"extra": {}}},
        {"properties": {"extra": True}},
    ],
)
def test_a_schema_that_says_that_it_is_open_is_open(schema: dict[str, Any]) -> None:
    check_strict_arguments(spec(schema), {"extra": {"anything": [1, {"goes": "here"}]}})


def test_a_schema_that_refers_to_itself_comes_to_an_end() -> None:
    loop = spec({"properties": {"next": {"$ref": "#"}}, "allOf": [{"$ref": "#"}]})
    deep: dict[str, Any] = {}
    for _ in range(50):
        deep = {"next": deep}
    check_strict_arguments(loop, deep)
    wide = spec({"properties": {"x": {"type": "array", "items": {"anyOf": [{}] * 200}}}})
    with pytest.raises(InvalidArguments, match="too large"):
        check_strict_arguments(wide, {"x": list(range(1_000))})


# ── numbers ─────────────────────────────────────────────────────────────────────────────────────────────────

Refused = Callable[[Any, dict[str, Any]], bool]


@pytest.mark.parametrize("value", [90_071_992_547_409_931, -(2**53) - 1, 10**400, 123_456_789_012_345_678])
@pytest.mark.parametrize(
    "schema",
    [
        {"type": "number"},
        {"type": ["number", "null"]},
        {"anyOf": [{"type": "number"}, {"type": "null"}]},
    ],
)
def test_a_whole_number_that_no_float_holds_is_refused(value: int, schema: dict[str, Any]) -> None:
    """Security trial L3: the card showed …931 and …936 ran."""
    with pytest.raises(InvalidArguments, match="more digits"):
        check_strict_arguments(spec({"properties": {"quantity": schema}}), {"quantity": value})


def test_a_whole_number_that_no_float_holds_is_refused_in_a_list_too() -> None:
    with pytest.raises(InvalidArguments, match=r"legs\[0\]\.weight"):
        check_strict_arguments(order.spec, {"symbol": "A", "legs": [{"symbol": "A", "weight": 2**53 + 1}]})


@pytest.mark.parametrize(
    ("kind", "value"), [("number", 2**53), ("number", 2**60), ("integer", 2**53 + 1), ("number", 1.5)]
)
def test_numbers_that_arrive_as_they_are_shown_pass(kind: str, value: float) -> None:
    check_strict_arguments(spec({"properties": {"quantity": {"type": kind}}}), {"quantity": value})


def test_a_fraction_for_a_whole_number_is_refused_before_anybody_is_asked() -> None:
    """JSON Schema takes 1.0 for an integer; the tool would refuse it after the yes."""
    with pytest.raises(InvalidArguments, match="whole number"):
        check_strict_arguments(spec({"properties": BUY}), {"quantity": 1.0})
