"""Chains of sources: batches, single flight, cache, failover, old figures, and what needs a second word."""

import asyncio
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from tests.finance.sources.bench import Bench, error_of, quote_of, quotes_of
from tests.finance.sources.faults import FAULTS
from tests.finance.sources.vendors import load_fixture

from finclaw.finance.market import Quote
from finclaw.finance.market_data.errors import AllSourcesFailed, DataNotFound, DataRateLimited, DataUnsupported

NAVER: dict[str, Any] = {"disabled": ("yahoo",)}


async def test_five_hundred_symbols_are_ten_requests(bench: Bench) -> None:
    symbols = [f"9{number:05}" for number in range(500)]
    found = await quotes_of(bench.open(**NAVER), symbols)
    assert list(found) == symbols
    assert bench.vendors.count("naver") == 500 // 50


async def test_two_hundred_askers_at_once_make_one_request(bench: Bench) -> None:
    data = bench.open(**NAVER)
    answers = await asyncio.gather(*(data.quotes(["005930"]) for _ in range(200)))
    assert bench.vendors.count("naver") == 1
    assert len({id(each["005930"]) for each in answers}) == 1


async def test_an_asker_who_leaves_takes_nobody_along(bench: Bench) -> None:
    data = bench.open(**NAVER)
    leaving = asyncio.create_task(quote_of(data, "005930"))
    staying = asyncio.create_task(quote_of(data, "005930"))
    await asyncio.sleep(0)
    leaving.cancel()
    assert (await staying).price == 100_500
    assert bench.vendors.count("naver") == 1


async def test_in_the_session_a_price_is_kept_for_seconds_and_after_it_for_minutes(bench: Bench) -> None:
    data = bench.open(**NAVER)
    for seconds, requests in ((0, 1), (9, 1), (2, 2)):
        bench.clock.advance(seconds)
        await data.quotes(["005930"])
        assert bench.vendors.count("naver") == requests
    body = load_fixture("naver_stocks")
    body["datas"][0]["localTradedAt"] = "2026-11-16T15:30:21+09:00"
    bench.vendors.changes["naver_stocks"] = body
    bench.clock.advance(5 * 3_600)
    for seconds, requests in ((0, 3), (500, 3), (101, 4)):
        bench.clock.advance(seconds)
        await data.quotes(["005930"])
        assert bench.vendors.count("naver") == requests


async def test_a_price_is_not_kept_over_the_opening_bell(bench: Bench) -> None:
    body = load_fixture("naver_stocks")
    body["datas"][0]["localTradedAt"] = "2026-11-16T15:30:21+09:00"
    bench.vendors.changes["naver_stocks"] = body
    bench.clock.advance(19 * 3_600 - 60)  # a minute before the next open
    data = bench.open(**NAVER)
    await data.quotes(["005930"])
    bench.clock.advance(61)
    await data.quotes(["005930"])
    assert bench.vendors.count("naver") == 2


async def test_only_what_our_own_records_lack_is_not_found(bench: Bench) -> None:
    data = bench.open(**NAVER)
    found = await data.quotes(["005930", "NOPE", "035420"])
    assert isinstance(found["005930"], Quote)
    assert isinstance(found["NOPE"], DataNotFound)
    unknown_to_naver = found["035420"]
    assert isinstance(unknown_to_naver, AllSourcesFailed)
    assert [type(each) for each in unknown_to_naver.causes] == [DataUnsupported]


async def test_nobody_is_asked_outside_of_the_chain(bench: Bench) -> None:
    error = await error_of(bench.open(disabled=("naver", "yahoo")), "005930")
    assert isinstance(error, DataUnsupported)
    assert bench.vendors.asked == []


async def test_when_nobody_answers_the_old_price_is_told_as_old_for_a_day(bench: Bench) -> None:
    data = bench.open(**NAVER)
    await data.quotes(["005930"])
    bench.vendors.faults["naver"] = FAULTS["500"]
    bench.clock.advance(60)
    old = await quote_of(data, "005930")
    assert (old.stale, old.price, old.failed) == (True, 100_500, ("Naver did not answer",))
    bench.clock.advance(86_400)
    error = await error_of(data, "005930")
    assert "Naver did not answer" in str(error)


async def test_a_source_that_fails_again_and_again_is_left_alone_for_a_while(bench: Bench) -> None:
    data = bench.open(**NAVER)
    bench.vendors.faults["naver"] = FAULTS["500"]
    for _ in range(5):
        await error_of(data, "005930")
    assert bench.vendors.count("naver") == 3
    bench.clock.advance(31)
    del bench.vendors.faults["naver"]
    assert (await quote_of(data, "005930")).price == 100_500


@pytest.mark.parametrize(("fault", "rest"), [("429", 300), ("429 with Retry-After", 120), ("418", 300), ("403", 300)])
async def test_a_source_that_refuses_us_is_left_alone_at_once(bench: Bench, fault: str, rest: int) -> None:
    data = bench.open(**NAVER)
    bench.vendors.faults["naver"] = FAULTS[fault]
    error = await error_of(data, "005930")
    if fault != "403":
        assert error.retry_at == bench.clock.now() + timedelta(seconds=rest)
    bench.clock.advance(rest - 1)
    await error_of(data, "005930")
    assert bench.vendors.count("naver") == 1
    bench.clock.advance(2)
    await error_of(data, "005930")
    assert bench.vendors.count("naver") == 2


async def test_a_budget_survives_a_restart_and_a_poller_leaves_room_for_people(bench: Bench) -> None:
    polling = bench.open(**NAVER).for_purpose("alerts")
    for number in range(15):  # a quarter of sixty a minute
        await quote_of(polling, f"9{number:05}")
    error = await error_of(polling, "900099")
    assert isinstance(error, AllSourcesFailed)
    assert isinstance(error.causes[0], DataRateLimited)
    assert error.retry_at == bench.clock.now() + timedelta(seconds=4)
    restarted = bench.open(**NAVER)  # nothing was closed before
    await error_of(restarted.for_purpose("alerts"), "900099")
    assert (await quote_of(restarted, "900099")).price == 512_000
    bench.clock.advance(4)
    await quote_of(restarted.for_purpose("alerts"), "900098")


async def test_a_first_price_that_nobody_confirms_says_so_once(bench: Bench) -> None:
    data = bench.open(**NAVER)
    first = await quote_of(data, "005930")
    bench.clock.advance(11)
    second = await quote_of(data, "005930")
    assert (first.is_confirmed, second.is_confirmed) == (False, True)


async def test_a_korean_price_beyond_the_limit_of_its_exchange_is_refused(bench: Bench) -> None:
    data = bench.open(**NAVER)
    await data.quotes(["005930"])
    body = load_fixture("naver_stocks")
    body["datas"][0] |= {
        "closePrice": "142,000",
        "compareToPreviousClosePrice": "40,000",
        "compareToPreviousPrice": {"code": "2"},
        "fluctuationsRatio": "39.22",
        "highPrice": "143,000",
    }
    bench.vendors.changes["naver_stocks"] = body
    bench.clock.advance(11)
    old = await quote_of(data, "005930")
    assert (old.price, old.stale) == (100_500, True)
    assert old.failed == ("Naver gave a figure that cannot be right",)


async def test_a_rare_move_elsewhere_is_called_unconfirmed(bench: Bench) -> None:
    body = load_fixture("naver_AAPL.O")
    body |= {
        "closePrice": "150.10",
        "compareToPreviousClosePrice": "-101.20",
        "fluctuationsRatio": f"{Decimal('-101.20') / Decimal('251.30') * 100:.2f}",
    }
    bench.vendors.changes["naver_AAPL.O"] = body
    data = bench.open(**NAVER)
    for _ in range(2):
        assert (await quote_of(data, "AAPL")).is_confirmed is False
        bench.clock.advance(700)
