"""Absurd figures in a vendor's answer: the next source is asked, and the other symbols of the answer are still used."""

import json
import random
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from datetime import date
from pathlib import Path
from typing import Any, Final, cast

import pytest
from tests.finance.sources.bench import CASES, KEYED, Bench, open_keyed
from tests.finance.sources.vendors import Fault, Reply, Vendors, load_fixture
from tests.machine import examples

from finclaw.finance.market import Quote
from finclaw.finance.market_data.errors import AllSourcesFailed, DataError
from finclaw.finance.market_data.port import BarRange
from finclaw.finance.market_data.source_info import SOURCES

ABSURD: Final[tuple[Any, ...]] = (
    10**16,
    -(10**16),
    10**30,
    10**4_000,
    1e308,
    -7,
    50,
    2**63,
    "9999999999999999",
    "1e99",
    "1e-99",
    "9," * 3_000,
    "0001-01-01T00:00:00+09:00",
    "9999-12-31T23:59:59-12:00",
    "99991231",
    None,
    "",
    [],
)
SPAN: Final = BarRange(first=date(2026, 11, 9), last=date(2026, 11, 16))


def paths_of(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of all leaves of a JSON document."""
    if not isinstance(value, dict | list):
        yield path
        return
    node = cast("dict[Any, Any] | list[Any]", value)
    for key, each in node.items() if isinstance(node, dict) else enumerate(node):
        yield from paths_of(each, (*path, key))


def change_one_leaf(choose: random.Random) -> Fault:
    def fault(_: str, reply: Reply) -> Reply:
        body = json.loads(reply.body)
        paths = list(paths_of(body))
        if not paths or not paths[0]:
            return reply
        *parents, last = choose.choice(paths)
        node: Any = body
        for key in parents:
            node = node[key]
        node[last] = choose.choice(ABSURD)
        return replace(reply, body=json.dumps(body).encode())

    return fault


@pytest.mark.parametrize(("vendor", "symbol"), [*CASES, *KEYED])
async def test_an_absurd_figure_is_a_failure_of_its_source(tmp_path: Path, vendor: str, symbol: str) -> None:
    """Whatever is changed, each answer is a believable quote or bar series, or an error of market data."""
    for number in range(examples(75)):
        vendors = Vendors(faults={vendor: change_one_leaf(random.Random(f"{vendor}{symbol}{number}"))})
        is_keyed = (vendor, symbol) in KEYED
        market = open_keyed(tmp_path, vendors, vendor) if is_keyed else Bench(tmp_path, vendors=vendors).open()
        answers = await market.quotes([symbol, "000660"])
        assert all(isinstance(each, Quote | DataError) for each in answers.values())
        if symbol not in ("KOSPI", "USD/KRW"):
            with suppress(AllSourcesFailed):
                assert (await market.bars(symbol, SPAN)).bars


BATCHES: Final[list[tuple[str, tuple[Any, ...], str, str]]] = [
    ("naver_stocks", ("datas", 1, "accumulatedTradingVolume"), "000660", "005930"),
    ("naver_stocks", ("datas", 1, "stockExchangeType", "delayTime"), "000660", "005930"),
    ("naver_stocks", ("datas", 1, "localTradedAt"), "000660", "005930"),
    ("upbit_ticker", (0, "trade_timestamp"), "BTC-KRW", "ETH-KRW"),
    ("upbit_ticker", (0, "acc_trade_volume"), "BTC-KRW", "ETH-KRW"),
]


@pytest.mark.parametrize(("fixture", "path", "symbol", "other"), BATCHES)
@pytest.mark.parametrize("is_alone", [True, False])
async def test_an_absurd_figure_leaves_the_other_symbols_of_its_answer(
    bench: Bench, fixture: str, path: tuple[Any, ...], symbol: str, other: str, *, is_alone: bool
) -> None:
    body = load_fixture(fixture)
    node = body
    for key in path[:-1]:
        node = node[key]
    node[path[-1]] = "0001-01-01T00:00:00+09:00" if path[-1] == "localTradedAt" else 10**17
    bench.vendors.changes[fixture] = body
    vendor = fixture.partition("_")[0]
    others = tuple(each for each in SOURCES if each != vendor) if is_alone else ()
    answers = await bench.open(disabled=others).quotes([symbol, other])
    assert isinstance(answers[other], Quote)
    assert isinstance(answers[symbol], AllSourcesFailed if is_alone else Quote), answers[symbol]
