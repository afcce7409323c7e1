"""The shipped records: what they must hold, and 400 look-ups that were written before the first one was tried."""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from finclaw.finance.instrument import Ambiguous, Instrument, Unknown
from finclaw.finance.instruments.catalogue import Catalogue, read_row, shipped_catalogue, write_row
from finclaw.finance.instruments.vendor_symbols import own_symbol, vendor_symbol

LOOKUPS = tuple(
    tuple(line.split("\t"))
    for line in Path(__file__).with_name("lookups.tsv").read_text(encoding="utf-8").splitlines()
    if not line.startswith("#")
)


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    return shipped_catalogue()


def _one(catalogue: Catalogue, query: str) -> Instrument:
    found = catalogue.find(query)
    assert isinstance(found, Instrument), (query, found)
    return found


def _symbols(found: Instrument | Ambiguous | Unknown) -> set[str]:
    match found:
        case Instrument():
            return {found.bare_symbol}
        case Ambiguous(candidates):
            return {each.bare_symbol for each in candidates}
        case Unknown():
            return set()


def test_400_look_ups(catalogue: Catalogue) -> None:
    """At least 99 of 100 clear ones are right; where several could be meant, none is answered."""
    clear, right = 0, 0
    wrong_answers: list[str] = []
    for query, verdict, *expected in LOOKUPS:
        found = catalogue.find(query)
        symbols = set(expected[0].split(",")) if expected else set[str]()
        if verdict == "exact":
            clear += 1
            right += isinstance(found, Instrument) and _symbols(found) == symbols
        elif isinstance(found, Instrument) or (verdict == "ambiguous" and not symbols <= _symbols(found)):
            wrong_answers.append(f"{query}: {_symbols(found)}")
    korean = sum(any("가" <= char <= "힣" for char in row[0]) for row in LOOKUPS)
    assert len(LOOKUPS) >= 400
    assert korean >= len(LOOKUPS) // 2
    assert not wrong_answers
    assert right >= 0.99 * clear, f"{right} of {clear}"


def test_the_shipped_records_are_all_there(catalogue: Catalogue) -> None:
    """The canaries of the file: counts by market, and rows that must be as they are."""
    counts = Counter((each.listed_on, each.kind) for each in catalogue)
    assert len(catalogue) >= 12_000
    assert counts["NASDAQ", "stock"] > 4_000
    assert counts["NYSE", "stock"] > 3_000
    assert counts["AMEX", "etf"] > 1_500
    assert counts["KOSPI", "stock"] > 600
    assert counts["KOSDAQ", "stock"] > 900
    assert counts["KOSPI", "etf"] > 400
    assert counts["CRYPTO", "coin"] >= 50
    samsung, apple = catalogue.get("005930"), catalogue.get("AAPL")
    assert samsung is not None
    assert (samsung.name_ko, samsung.listed_on, samsung.isin, samsung.currency) == (
        *("삼성전자", "KOSPI"),
        *("KR7005930003", "KRW"),
    )
    assert apple is not None
    assert (apple.name_ko, apple.listed_on, apple.cik) == ("애플", "NASDAQ", 320193)
    fund = catalogue.get("069500")
    assert fund is not None
    assert fund.type == "etf"


def test_every_row_is_well_formed(catalogue: Catalogue) -> None:
    ids = Counter(each.id for each in catalogue)
    assert ids.most_common(1)[0][1] == 1
    for each in catalogue:
        assert each.name_en.strip() == each.name_en != ""
        assert read_row(write_row(each)) == each
        if each.status == "renamed":
            assert catalogue.get(each.successor) is not None


def test_vendor_symbols_name_one_record_each(catalogue: Catalogue) -> None:
    listed = [each for each in catalogue if each.status == "listed" and each.kind != "index"]
    for vendor in ("yahoo", "naver", "kis", "toss", "alpaca", "sec"):
        theirs = Counter(filter(None, (vendor_symbol(vendor, each) for each in listed)))
        assert [name for name, count in theirs.items() if count > 1] == [], vendor
    for each in listed:
        theirs = vendor_symbol("alpaca", each)
        assert theirs is None or own_symbol(theirs) == each.symbol, (theirs, each.symbol)


def test_a_plain_name_is_the_common_share(catalogue: Catalogue) -> None:
    # Trap 12 of the handbook: a preferred share is another instrument with another price.
    assert _one(catalogue, "삼성전자").symbol == "005930"
    assert _one(catalogue, "삼성전자우").type == "preferred"
    assert _one(catalogue, "Bank of America").symbol == "BAC"
    assert _one(catalogue, "BAC-PL").type == "preferred"


def test_a_sign_before_a_number_is_part_of_the_name() -> None:
    # Trap 12: the two certificates go opposite ways.
    rows = [
        Instrument(symbol=symbol, exchange="KRX", name_en=name, name_ko=name, currency="KRW", kind="etf")
        for symbol, name in (("Q610100", "메리츠 2X 은 선물 ETN(H)"), ("Q610101", "메리츠 -2X 은 선물 ETN(H)"))
    ]
    catalogue = Catalogue("\n".join(map(write_row, rows)))
    assert _one(catalogue, "메리츠 2X 은 선물 ETN(H)").symbol == "Q610100"
    assert _one(catalogue, "메리츠 -2X 은 선물 ETN(H)").symbol == "Q610101"
    assert _one(catalogue, "q610101").symbol == "Q610101"


def test_the_isin_of_a_preferred_share_is_not_its_code(catalogue: Catalogue) -> None:
    # Trap 24: whoever computes it names the common share.
    preferred = [each for each in catalogue if each.exchange == "KRX" and each.type == "preferred" and each.isin]
    assert preferred
    assert not [each.symbol for each in preferred if each.isin.startswith(f"KR7{each.symbol}00")]
    assert _one(catalogue, "KR7005931001").symbol == "005935"


def test_a_name_is_not_cut_at_a_hyphen(catalogue: Catalogue) -> None:
    # Trap 25: a derived column of a public list turns Coca-Cola into Coca.
    assert _one(catalogue, "KO").name_en == "Coca-Cola"
    assert _one(catalogue, "Colgate-Palmolive").symbol == "CL"
    assert isinstance(catalogue.find("Coca"), Unknown)


def test_a_coin_is_priced_in_the_persons_currency(catalogue: Catalogue) -> None:
    bitcoin = catalogue.find("비트코인", "KRW")
    assert isinstance(bitcoin, Instrument)
    assert (bitcoin.symbol, bitcoin.currency) == ("BTC-KRW", "KRW")
    assert _one(catalogue, "BTC").symbol == "BTC-USD"
    assert _one(catalogue, "BTC/KRW").symbol == "BTC-KRW"
    assert catalogue.get("BTC-KRW") == bitcoin
    assert catalogue.get("BTC-USDT") is None  # another instrument


def test_a_near_miss_is_offered_and_not_taken(catalogue: Catalogue) -> None:
    found = catalogue.find("삼성전지")
    assert isinstance(found, Unknown)
    assert "005930" in {each.symbol for each in found.near}
    assert catalogue.find("오늘이엔엠") == Unknown(())  # no part of it names anything


def test_names_in_a_row_are_told_apart(catalogue: Catalogue) -> None:
    assert catalogue.split("애플 테슬라") == ("애플", "테슬라")
    assert catalogue.split("카카오 초콜릿") == ()


def test_nothing_is_read_before_it_is_asked_for() -> None:
    code = (
        "import sys, finclaw.finance.extension, finclaw.demo.market\n"
        "print([name for name in sys.modules if 'catalogue' in name])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
