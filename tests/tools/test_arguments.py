from typing import Any

import pytest

from finclaw.errors import ExtensionError, InvalidArguments
from finclaw.kernel.chunk import ToolSpec
from finclaw.tools.arguments import ArgumentCheck, with_defaults

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "symbol": {"type": "string"},
        "days": {"type": "integer", "default": 5},
        "tags": {"type": "array", "items": {"type": "string"}, "default": []},
        "view": {
            "type": "object",
            "properties": {"zone": {"type": "string", "default": "UTC"}, "width": {"type": "integer"}},
        },
    },
    "required": ["symbol"],
    "additionalProperties": False,
}
SPEC = ToolSpec("chart__draw", "Draw.", SCHEMA)


def test_defaults_are_filled_in_nested_ones_too():
    given = {"symbol": "AAPL", "view": {"width": 3}}
    assert ArgumentCheck().check(SPEC, given).args == {
        "symbol": "AAPL",
        "days": 5,
        "tags": [],
        "view": {"zone": "UTC", "width": 3},
    }
    assert given == {"symbol": "AAPL", "view": {"width": 3}}


def test_a_null_for_what_may_be_left_out_is_left_out():
    check = ArgumentCheck()
    given = {"symbol": "AAPL", "days": None, "view": {"zone": None, "width": None}}
    expected: dict[str, Any] = {"symbol": "AAPL", "days": 5, "tags": [], "view": {"zone": "UTC"}}
    assert check.check(SPEC, given).args == expected
    with pytest.raises(InvalidArguments, match="symbol: null is not of type"):
        check.check(SPEC, {"symbol": None})
    nullable = {"type": "object", "properties": {"note": {"type": ["string", "null"]}, "free": {}}}
    assert with_defaults(nullable, {"note": None, "free": None}) == {"note": None, "free": None}


def test_a_default_is_never_shared():
    with_defaults(SCHEMA, {})["tags"].append("x")
    assert with_defaults(SCHEMA, {})["tags"] == []


def test_the_model_is_told_everything_at_once_with_paths():
    with pytest.raises(InvalidArguments) as caught:
        ArgumentCheck().check(SPEC, {"days": "five", "tags": ["a", 2], "view": {"width": 1.5}, "colour": "red"})
    message = str(caught.value)
    assert message.startswith("Invalid input for chart__draw:")
    assert 'days: "five" is not of type "integer"' in message
    assert 'tags[1]: 2 is not of type "string"' in message
    assert 'view.width: 1.5 is not of type "integer"' in message
    assert '"symbol" is a required property' in message
    assert "'colour' was unexpected" in message


def test_a_long_value_is_not_quoted_whole():
    with pytest.raises(InvalidArguments) as caught:
        ArgumentCheck().check(SPEC, {"symbol": "AAPL", "days": "x" * 10_000})
    assert len(str(caught.value)) < 500


def test_a_tool_that_was_replaced_is_checked_by_its_new_schema():
    check = ArgumentCheck()
    check.check(SPEC, {"symbol": "AAPL"})
    other = ToolSpec("chart__draw", "Draw.", {"type": "object", "required": ["title"]})
    with pytest.raises(InvalidArguments, match="title"):
        check.check(other, {"symbol": "AAPL"})


@pytest.mark.parametrize("schema", [{"type": "objekt"}, {"$ref": "http://127.0.0.1:9/schema"}])
def test_a_schema_that_cannot_be_used_is_its_authors_fault(schema: dict[str, Any]):
    with pytest.raises(ExtensionError, match="odd__tool"):
        ArgumentCheck().check(ToolSpec("odd__tool", "Odd.", schema), {})
