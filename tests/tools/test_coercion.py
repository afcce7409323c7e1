"""What a model plainly meant: read exactly, and told; or refused as it stands."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from finclaw.errors import InvalidArguments
from finclaw.kernel.chunk import ToolSpec
from finclaw.tools.arguments import ArgumentCheck, Checked

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "days": {"type": "integer", "minimum": 1},
        "price": {"type": "number"},
        "dry": {"type": "boolean"},
        "tags": {"type": "array", "items": {"type": "string"}},
        "sizes": {"type": "array", "items": {"type": "integer"}},
        "view": {"type": "object", "properties": {"width": {"type": "integer"}, "zone": {"default": "UTC"}}},
        "maybe": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "perhaps": {"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]},
        "text": {"type": "string"},
        "on": {"type": "string", "format": "date"},
        "amount": {"type": "string", "format": "decimal"},
    },
    "additionalProperties": False,
}
SPEC = ToolSpec("chart__draw", "Draw.", SCHEMA)


def check(**args: Any) -> Checked:
    return ArgumentCheck().check(SPEC, args)


@pytest.mark.spec("DX-24", "T-17")
@pytest.mark.parametrize(
    ("name", "written", "meant"),
    [
        ("days", "5", 5),
        ("price", "5", 5),
        ("price", "-0.25", -0.25),
        ("price", "1e3", 1000.0),
        ("dry", "true", True),
        ("dry", "false", False),
        ("tags", "AAPL", ["AAPL"]),
        ("tags", '["A", "B"]', ["A", "B"]),
        ("sizes", 3, [3]),
        ("sizes", "3", [3]),
        ("sizes", ["3", 4], [3, 4]),
        ("sizes", '["3"]', [3]),
        ("view", '{"width": "3"}', {"width": 3, "zone": "UTC"}),
        ("maybe", "7", 7),
        ("perhaps", ["7"], [7]),
    ],
)
def test_what_is_exact_is_read_and_told(name: str, written: Any, meant: Any) -> None:
    checked = check(**{name: written})
    assert (checked.args, type(checked.args[name])) == ({name: meant}, type(meant))
    assert name in checked.note
    assert "\n" not in checked.note


@pytest.mark.parametrize(
    ("name", "written"),
    [
        ("days", "5.0"),
        ("days", "five"),
        ("days", " 5"),
        ("days", "05"),
        ("days", "٣"),
        ("days", "0"),
        ("days", "9" * 30),
        ("days", True),
        ("days", 5.5),
        ("price", "1,000"),
        ("price", "NaN"),
        ("price", "1e999"),
        ("price", "0.1234567890123456789"),
        ("dry", "True"),
        ("dry", "yes"),
        ("dry", 1),
        ("sizes", "three"),
        ("tags", 3),
        ("tags", '["A", 2]'),
        ("view", "[1]"),
        ("view", '{"width": 1'),
        ("view", "[" * 100_000),
        ("text", 5),
        ("text", True),
        ("maybe", "null"),
        ("on", "2025-02-30"),
        ("amount", "a lot"),
        ("amount", "NaN"),
    ],
)
def test_what_is_not_exact_is_refused_as_it_was_written(name: str, written: Any) -> None:
    with pytest.raises(InvalidArguments) as caught:
        check(**{name: written})
    assert f"- {name}" in str(caught.value)


def test_nothing_is_coerced_when_something_else_is_wrong() -> None:
    with pytest.raises(InvalidArguments) as caught:
        check(days="5", colour="red")
    assert 'days: "5" is not of type "integer"' in str(caught.value)
    assert "'colour' was unexpected" in str(caught.value)


def test_what_fits_is_left_alone_and_nothing_is_told() -> None:
    given = {"text": "5", "tags": ["true"], "days": 5, "on": "2025-02-28", "amount": "-1.50"}
    checked = check(**given)
    assert (checked.args, checked.note) == (given, "")


def test_the_callers_arguments_stay_as_they_are() -> None:
    given = {"sizes": ["1", "2"]}
    assert ArgumentCheck().check(SPEC, given).args == {"sizes": [1, 2]}
    assert given == {"sizes": ["1", "2"]}


def test_many_changes_and_long_values_are_one_short_line() -> None:
    checked = check(sizes=[str(number) for number in range(1000)], view=json.dumps({"width": 1, "x": "y" * 5000}))
    assert len(checked.note) < 1000
    assert "and 996 more" in checked.note


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text()
    | st.from_regex(r"-?[0-9.e]{1,6}"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.spec("DX-24")
@given(st.dictionaries(st.sampled_from([*SCHEMA["properties"], "other"]), VALUES | VALUES.map(str), max_size=4))
def test_whatever_comes_out_fits_the_schema_and_only_wrong_types_have_changed(args: dict[str, Any]) -> None:
    check = ArgumentCheck()
    try:
        checked = check.check(SPEC, args)
    except InvalidArguments:
        return
    assert check.complaints(SPEC, checked.args) == []
    assert check.check(SPEC, checked.args) == Checked(checked.args)
    msgspec.json.encode(checked.args)
    for name, value in args.items():
        if isinstance(value, str) and SCHEMA["properties"][name].get("type") == "string":
            assert checked.args[name] == value
