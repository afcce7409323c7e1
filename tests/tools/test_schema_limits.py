"""Security trial H5: checking arguments takes a bounded time, whatever the schema and the arguments are."""

import asyncio
import contextlib
import gc
import random
import time
from typing import Any

import pytest
from tests.machine import is_quick

from finclaw.builtins.mcp.pins import Definition, spec_of
from finclaw.errors import ExtensionError, InvalidArguments
from finclaw.kernel.chunk import ToolSpec
from finclaw.tools.arguments import ArgumentCheck, compile_schema

LONGEST = 0.1
AB = "".join(random.Random(1).choice("ab") for _ in range(3_000))
NESTED = [{"pattern": f"^(a+a+)+b{n}$"} for n in range(5)]


def takes(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


HOSTILE: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "rules times items": (takes({"x": {"items": {"allOf": [{"type": "string"}] * 400}}}), {"x": list(range(5_000))}),
    "rules times names": (
        takes({}, patternProperties={f"k{n}?": {"type": "string"} for n in range(45)}),
        {f"k{n}": n for n in range(9_000)},
    ),
    "alternatives": (takes({"x": {"anyOf": [{"items": {"type": "string"}}] * 400}}), {"x": list(range(5_000))}),
    "one of many": (takes({"x": {"oneOf": [{"items": {"type": "string"}}] * 400}}), {"x": ["a"] * 2_000}),
    "texts in complaints": (
        takes({"x": {"items": {"allOf": [{"maxLength": n} for n in range(200)]}}}),
        {"x": ["y" * 5_000] * 400},
    ),
    "an automaton of thousands of states": (takes({"x": {"pattern": "[ab]*a[ab]{3000}c"}}), {"x": AB}),
    "names against it": (takes({"x": {"propertyNames": {"pattern": "[ab]*a[ab]{900}c"}}}), {"x": {AB: 1, AB[1:]: 2}}),
    "nested quantifiers that never match": (
        takes({"x": {"items": {"anyOf": NESTED}}}),
        {"x": ["a" * 40] * 1_000},
    ),
    "unique long numbers": (takes({"x": {"uniqueItems": True}}), {"x": [10**60 + n for n in range(5_000)]}),
    "numbers of thousands of digits": (takes({"x": {"items": {"multipleOf": 7}}}), {"x": [7 * 10**4_000] * 1_000}),
    "formats": (takes({"x": {"allOf": [{"format": "email"}] * 1_000}}), {"x": "a" * 100_000}),
    "options": (takes({"x": {"items": {"enum": list(range(4_000))}}}), {"x": [9_999] * 20_000}),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pair_of_schema_and_arguments_is_judged_in_time(name: str) -> None:
    schema, args = HOSTILE[name]
    spec, check = spec_of("bad", Definition("act", "Acts.", schema)), ArgumentCheck()
    began = time.process_time()
    with pytest.raises(InvalidArguments) as refused:
        check.check(spec, args)
    took = time.process_time() - began
    assert is_quick(took, LONGEST)
    assert str(refused.value).startswith("Invalid input for bad__act")
    assert len(str(refused.value)) < 10_000


def test_a_call_that_is_too_large_says_what_to_do() -> None:
    schema, args = HOSTILE["rules times items"]
    with pytest.raises(InvalidArguments, match=r"too large to be checked.*send fewer or shorter values"):
        ArgumentCheck().check(ToolSpec("a__b", "", schema), args)


def test_twenty_complaints_are_enough() -> None:
    schema = takes({"x": {"items": {"type": "string"}}})
    with pytest.raises(InvalidArguments) as refused:
        ArgumentCheck().check(ToolSpec("a__b", "", schema), {"x": [[]] * 500})
    assert str(refused.value).count("\n- ") == 20


def test_a_long_text_beside_a_pattern_is_taken() -> None:
    """What one property must look like costs nothing for another."""
    schema = takes({"title": {"type": "string", "pattern": "^.{1,200}$"}, "text": {"type": "string"}})
    args = {"title": "Q3", "text": "word " * 20_000}
    assert ArgumentCheck().check(ToolSpec("a__b", "", schema), args).args == args


async def test_a_check_that_takes_a_while_lets_others_run() -> None:
    schema = takes({"x": {"items": {"type": "integer"}}})
    args = {"x": list(range(5_000))}
    assert (await ArgumentCheck().check_off_loop(ToolSpec("a__b", "", schema), args)).args == args
    with pytest.raises(InvalidArguments):
        await ArgumentCheck().check_off_loop(ToolSpec("a__b", "", schema), {"x": [[]] * 5_000})


LARGEST_THAT_ARE_CHECKED: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "thousands of errors": (takes({"x": {"items": {"type": "string"}}}), {"x": [[]] * 2_400}),
    "many rules": (takes({"x": {"items": {"allOf": [{"type": "integer"}] * 100}}}), {"x": list(range(1_500))}),
    "texts for numbers": (takes({"x": {"items": {"type": "integer"}}}), {"x": [str(n) for n in range(1_600)]}),
    "a large automaton": (takes({"x": {"pattern": "[ab]*a[ab]{3000}c"}}), {"x": "ab" * 800}),
    "unique numbers": (takes({"x": {"uniqueItems": True}}), {"x": [n * 1e300 / 7 for n in range(40_000)]}),
}


@pytest.mark.parametrize("name", HOSTILE | LARGEST_THAT_ARE_CHECKED)
async def test_no_check_stalls_the_event_loop(name: str) -> None:
    schema, args = (HOSTILE | LARGEST_THAT_ARE_CHECKED)[name]
    spec, check, longest = spec_of("bad", Definition("act", "Acts.", schema)), ArgumentCheck(), 0.0

    async def watch() -> None:
        nonlocal longest
        while True:
            began, at = time.process_time(), time.perf_counter()
            await asyncio.sleep(0.001)
            longest = max(longest, min(time.process_time() - began, time.perf_counter() - at))

    gc.collect()
    gc.freeze()  # as the gateway does: what the test runner has loaded is no server's doing
    watching = asyncio.create_task(watch())
    try:
        with contextlib.suppress(InvalidArguments):
            await check.check_off_loop(spec, args)
        await asyncio.sleep(0.01)
    finally:
        watching.cancel()
    assert is_quick(longest, LONGEST)


def test_a_schema_is_compiled_once_whoever_needs_it() -> None:
    spec = ToolSpec("a__b", "", takes({"x": {"type": "string", "pattern": "^[a-z]{3}$"}}))
    same = ToolSpec("a__c", "", takes({"x": {"type": "string", "pattern": "^[a-z]{3}$"}}))
    assert compile_schema(spec) is compile_schema(same)


@pytest.mark.parametrize(
    "schema",
    [
        takes({}, patternProperties={rf"^(\w{{90}}){{9}}x{n}$": {} for n in range(700)}),
        takes({"x": {"pattern": r"((a{100}){100}){100}"}}),
        takes({"x": {"allOf": [{"pattern": f"a{n}"} for n in range(51)]}}),
        takes({"x": {"maximum": 10**200}}),
        takes({}, unevaluatedProperties=False, allOf=[{"unevaluatedProperties": False}] * 2),
    ],
)
def test_a_schema_over_its_budget_is_refused_before_it_is_compiled(schema: dict[str, Any]) -> None:
    began = time.process_time()
    with pytest.raises(ExtensionError, match=r"its (schema|pattern)"):
        spec_of("bad", Definition("act", "Acts.", schema))
    assert is_quick(time.process_time() - began, LONGEST)
