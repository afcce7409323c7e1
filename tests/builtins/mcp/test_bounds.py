"""Schemas that are small to write and endless to check are refused at once; those that people write are not."""

import time
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.machine import is_quick

from finclaw.builtins.mcp.pins import Definition, spec_of
from finclaw.errors import ExtensionError, InvalidArguments
from finclaw.tools.arguments import ArgumentCheck
from finclaw.tools.schema_limits import must_be_bounded


def takes(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


def doubling(levels: int) -> dict[str, Any]:
    steps: dict[str, Any] = {f"x{n}": {"allOf": [{"$ref": f"#/$defs/x{n + 1}"}] * 2} for n in range(levels)}
    return takes({"a": {"$ref": "#/$defs/x0"}}, **{"$defs": {**steps, f"x{levels}": {}}})


INSIDE: dict[str, Any] = {"$id": "urn:x", "$ref": "#/q", "q": {}}


@pytest.mark.spec("DX-52")
@pytest.mark.parametrize(
    ("schema", "complaint"),
    [
        (doubling(40), "unfolds to more than"),
        (takes({f"p{n}": {} for n in range(6_000)}), "unfolds to more than"),
        (takes({"a": {"$ref": "#"}}), "all of itself"),
        (takes({"a": {"$ref": "#/properties/a"}}), "contains itself"),
        (takes({"a": {"$ref": "http://127.0.0.1:9/s"}}), "not in it"),
        (takes({"a": {"$ref": "#/$defs/none"}}), "not in it"),
        (takes({"a": INSIDE}), r"uses \$id"),
        (takes({"a": {"$dynamicRef": "#/x"}}), r"uses \$dynamicRef"),
        (takes({}, **{"$schema": "http://127.0.0.1:9/meta"}), "dialect"),
        (takes({}, **{"$schema": "http://json-schema.org/draft-04/schema#"}), "dialect"),
        (takes({"a": {"allOf": [{"pattern": f"a{n}"} for n in range(51)]}}), "more than 50 patterns"),
        (takes({}, patternProperties={f"x{n}": {} for n in range(51)}), "more than 50 patterns"),
    ],
)
def test_it_is_refused_at_once(schema: dict[str, Any], complaint: str) -> None:
    began = time.process_time()
    with pytest.raises(ExtensionError, match=complaint):
        must_be_bounded(schema)
    assert is_quick(time.process_time() - began, 1)


@pytest.mark.parametrize("pattern", [r"^(?!0)[0-9]+$", r"(?<=a)b", r"^(a|aa)+\1$"])
def test_pattern_that_needs_backtracking_is_refused_with_the_reason(pattern: str) -> None:
    schema = takes({"id": {"type": "string", "pattern": pattern}})
    with pytest.raises(ExtensionError, match="uses look-around or a back-reference, which is not supported"):
        spec_of("desk", Definition("act", "Acts.", schema))


ZONED: dict[str, Any] = {"type": "object", "properties": {"zone": {"$ref": "#/$defs/zone"}}}


def test_what_people_write_is_taken_and_checked() -> None:
    schema = takes(
        {
            "when": {"$ref": "#/$defs/moment"},
            "id": {"type": "string", "pattern": "^[1-9][0-9]*$", "default": "1"},
            "$ref": {"type": "boolean"},
            "pattern": {"type": "string"},
        },
        **{
            "$schema": "https://json-schema.org/draft/2020-12/schema",
            "$id": "https://example.com/tool",
            "$defs": {
                "moment": {"type": "object", "properties": {"zone": {"$ref": "#/$defs/zone"}}},
                "zone": {"type": "string"},
            },
        },
    )
    spec = spec_of("desk", Definition("act", "Acts.", schema))
    args = {"when": {"zone": "UTC"}, "$ref": True, "pattern": "x"}
    assert ArgumentCheck().check(spec, args).args == {**args, "id": "1"}
    with pytest.raises(InvalidArguments):
        ArgumentCheck().check(spec, {"when": {"zone": 5, "a": []}, "id": "0"})


KEYWORDS = st.sampled_from(["$ref", "$defs", "a", "properties", "allOf", "pattern", "$id", "default"])
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.sampled_from(["#", "#/a", "#/properties/a"]),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.sampled_from(["$ref", "$defs", "a", "properties", "allOf", "pattern", "$id"]), inner, max_size=4
        )
    ),
    max_leaves=20,
)


@given(st.dictionaries(st.sampled_from(["properties", "$defs", "allOf", "$ref", "required"]), json_values, max_size=5))
def test_whatever_a_stranger_writes_it_is_taken_or_refused(schema: dict[str, Any]) -> None:
    with suppress(ExtensionError, InvalidArguments):
        spec = spec_of("desk", Definition("act", "", {"type": "object", **schema}))
        ArgumentCheck().check(spec, {"a": {"a": [1]}, "properties": 5})
