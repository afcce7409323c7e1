"""Security trial H5: whatever schemas a connected server sends, the event loop goes on."""

import asyncio
import gc
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from tests.builtins.mcp.bench import SERVERS, Bench
from tests.machine import is_quick

from finclaw.builtins.mcp.transport import has_too_many_values

LONGEST_STALL = 0.1
"""Seconds on a quiet machine for which nobody else was served."""


def hostile(how: str) -> dict[str, Any]:
    return {"command": [sys.executable, str(SERVERS / "hostile_schemas.py"), how]}


class Stalls:
    """The longest time for which the event loop ran nothing else, in this process's own processor time.

    Not by the clock: other processes of the machine stall nobody by our doing.
    """

    def __init__(self) -> None:
        self.longest = 0.0

    async def watch(self) -> None:
        while True:
            began, at = time.process_time(), time.perf_counter()
            await asyncio.sleep(0.001)
            self.longest = max(self.longest, min(time.process_time() - began, time.perf_counter() - at))


@asynccontextmanager
async def watched() -> AsyncGenerator[Stalls]:
    gc.collect()
    gc.freeze()  # as the gateway does: what the test runner has loaded is no server's doing
    stalls = Stalls()
    task = asyncio.create_task(stalls.watch())
    try:
        yield stalls
    finally:
        task.cancel()


@pytest.mark.parametrize(
    ("how", "reason"),
    [
        ("patterns", "patterns"),
        ("nested", "patterns"),
        ("references", "unfolds to more than|nested"),
        ("deep", "nested"),
        ("unevaluated", "unevaluatedProperties"),
        ("numbers", "more than 77 digits"),
    ],
)
async def test_a_hostile_schema_is_left_out_with_a_reason_and_stalls_nobody(
    bench: Bench, how: str, reason: str
) -> None:
    async with bench.open(servers={"bad": hostile("fine")}):  # the SDK is imported
        await bench.has("bad__fine")
    again = Bench(bench.state, "others")
    async with watched() as stalls, again.open(servers={"bad": hostile(how)}):
        await again.has("bad__fine")
        await asyncio.sleep(2)  # it looks for approvals each second
        told = await again.said()
        assert again.names == ["bad__fine"]
    assert any(part in told for part in reason.split("|")), told
    assert is_quick(stalls.longest, LONGEST_STALL), how


@pytest.mark.parametrize(
    "how",
    [
        "limits 200 changing",
        "descriptions",
        *(
            pytest.param(each, marks=pytest.mark.soak)
            for each in ("limits 200", "patterns 200", "patterns 200 changing")
        ),
    ],
)
async def test_as_much_as_is_taken_and_again_each_second_stalls_nobody(bench: Bench, how: str) -> None:
    async with bench.open(servers={"bad": hostile("fine")}):
        await bench.has("bad__fine")
    again = Bench(bench.state, "others")
    async with watched() as stalls, again.open(servers={"bad": hostile(how)}):
        await again.says_not("starting")
        await asyncio.sleep(3)  # it looks for approvals each second
        told = await again.said()
    assert "tools: " in told or "not offered" in told
    assert is_quick(stalls.longest, LONGEST_STALL), how


LISTING = '{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a","inputSchema":{"type":"object","x":%s}}]}}'


@pytest.mark.parametrize(
    "body",
    [
        "[" + "[]," * 1_200_000 + "[]]",
        "[" + "1," * 1_900_000 + "1]",
        "[" + '{"a":1},' * 400_000 + "{}]",
        "[" + '"",' * 1_000_000 + '""]',
        "1" * 3_900_000,
    ],
    ids=["lists", "numbers", "objects", "texts", "digits"],
)
def test_a_message_of_millions_of_values_is_refused_before_it_is_parsed(body: str) -> None:
    """Parsing the first of them takes three seconds, all of them on the event loop."""
    line = (LISTING % body).encode()
    began = time.process_time()
    assert has_too_many_values(line)
    assert is_quick(time.process_time() - began, LONGEST_STALL)


@pytest.mark.parametrize(
    "body", ['"' + "a,b,[c]\\n" * 350_000 + '"', '"' + '\\"' * 1_900_000 + '"', '"' + "1" * 3_900_000 + '"']
)
def test_a_long_text_is_one_value_whatever_it_holds(body: str) -> None:
    assert not has_too_many_values((LISTING % body).encode())
