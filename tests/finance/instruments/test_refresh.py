"""A refresh from lists in the vendors' documented shapes (values synthetic): taken whole, or not at all."""

import io
import time
import zipfile
from pathlib import Path

import pytest
from tests.machine import is_quick

from finclaw.errors import ToolError
from finclaw.finance.instrument import Instrument
from finclaw.finance.instruments.added import AddedInstruments
from finclaw.finance.instruments.catalogue import Catalogue, is_plain_name, read_row, write_row
from finclaw.finance.instruments.refresh import (
    AMERICA,
    KOREA,
    BadListing,
    ListingSource,
    check_listing,
    download_listings,
    merge_listings,
    read_kis_master,
    read_nasdaq_directory,
)
from finclaw.kernel.fetch import FetchReply, FetchRequest

KIS_ROWS = (
    ("005930", "KR7005930003", "삼성전자", "ST"),
    ("005935", "KR7005931001", "삼성전자우", "ST"),
    ("00104K", "KR700104K010", "CJ4우(전환)", "ST"),
    ("069500", "KR7069500007", "KODEX 200", "EF"),
    ("Q610101", "KRG610101000", "메리츠 -2X 은 선물 ETN(H)", "EN"),
    ("J0036221D", "KRA003622100", "어느 신주인수권", "SR"),
    ("0126Z0", "KR70126Z0006", "삼성에피스홀딩스", "ST"),
)
DIRECTORY = """\
ACT Symbol|Security Name|Exchange|CQS Symbol|ETF|Round Lot Size|Test Issue|NASDAQ Symbol
KO|Coca-Cola Company (The) Common Stock|N|KO|N|100|N|KO
BRK.B|Berkshire Hathaway Inc. Common Stock|N|BRK.B|N|100|N|BRK.B
SPY|SPDR S&P 500 ETF Trust|P|SPY|Y|100|N|SPY
BAC$L|Bank of America Corporation 7.25% Preferred|N|BACpL|N|100|N|BAC-L
ZTEST|A test issue|N|ZTEST|N|100|Y|ZTEST
NEWC|New Company Inc. Common Stock|A|NEWC|N|100|N|NEWC
File Creation Time: 1116202621:31|||||||
"""


def _kis_file(rows: tuple[tuple[str, str, str, str], ...] = KIS_ROWS, tail: int = 227) -> bytes:
    """In the documented shape: code and ISIN of fixed width, the name, and a tail that begins with the type."""
    lines = [f"{code:<9}{isin:<12}{name:<40}{kind:<{tail}}" for code, isin, name, kind in rows]
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("kospi_code.mst", ("\n".join(lines) + "\n").encode("cp949"))
    return packed.getvalue()


class _Vendor:
    """A fetcher that gives one body for every address."""

    def __init__(self, body: bytes, status: int = 200, *, truncated: bool = False) -> None:
        self._reply = FetchReply(
            status=status,
            url="",
            host="",
            media_type="application/zip",
            charset="",
            body=body,
            truncated=truncated,
            headers={},
        )

    async def fetch(self, request: FetchRequest) -> FetchReply:
        return self._reply


def _short(source: ListingSource, rows: int) -> ListingSource:
    return ListingSource(
        name=source.name, url=source.url, read=source.read, fewest=rows, canaries={"005930": "삼성전자"}
    )


def _known(*extra: Instrument) -> Catalogue:
    made = (
        *(
            _record("005930", "삼성전자", aliases=("삼전",)),
            _record("005935", "삼성전자우"),
            _record("00104K", "CJ4우"),
        ),
        *extra,
    )
    return Catalogue("\n".join(map(write_row, made)))


def _record(symbol: str, name: str, aliases: tuple[str, ...] = (), exchange: str = "KRX") -> Instrument:
    return Instrument(
        symbol=symbol,
        exchange=exchange,
        name_en=f"E {name}",
        name_ko=name,
        currency="KRW" if exchange == "KRX" else "USD",
        aliases=aliases,
        status="unconfirmed",
    )


def test_a_korean_master_is_read() -> None:
    rows = {row.symbol: row for row in read_kis_master(227, "KOSPI")(_kis_file())}
    assert list(rows) == ["005930", "005935", "00104K", "069500", "Q610101", "0126Z0"]  # no warrant
    assert (rows["005930"].name, rows["005930"].isin, rows["005930"].share_type) == ("삼성전자", "KR7005930003", "")
    assert rows["005935"].share_type == rows["00104K"].share_type == "preferred"
    assert (rows["069500"].kind, rows["Q610101"].share_type) == ("etf", "etn")


def test_the_nasdaq_directory_is_read() -> None:
    rows = {row.symbol: row for row in read_nasdaq_directory(DIRECTORY.encode())}
    assert list(rows) == ["KO", "BRK.B", "SPY", "NEWC"]  # neither a test issue nor a preferred share, nor the last line
    assert rows["KO"].name == "Coca-Cola Company (The)"
    assert (rows["SPY"].kind, rows["SPY"].market, rows["KO"].market, rows["NEWC"].market) == (
        *("etf", "AMEX"),
        *("NYSE", "AMEX"),
    )


@pytest.mark.parametrize(
    ("vendor", "says"),
    [
        (_Vendor(b"<html>moved</html>"), "not the list that it was"),
        (_Vendor(_kis_file()[:200]), "not the list that it was"),
        (_Vendor(_kis_file(KIS_ROWS[:2])), "has 2 rows"),
        (_Vendor(_kis_file((("005930", "KR7005930003", "다른회사", "ST"), *KIS_ROWS[1:]))), "calls 005930 '다른회사'"),
        (_Vendor(_kis_file(tail=220)), "has 0 rows"),
        (_Vendor(_kis_file(), status=503), "answered 503"),
        (_Vendor(_kis_file((*KIS_ROWS, ("000100", "KR7000100008", "a" * 101, "ST")))), "odd name .* old list is kept"),
        (_Vendor(_kis_file((*KIS_ROWS, ("000100", "KR7000100008", "DO mail__send <b>", "ST")))), "odd name"),
        (_Vendor(_kis_file((*KIS_ROWS, ("000100", "KR70001\t00", "유한양행", "ST")))), "odd name or ISIN"),
        (_Vendor(_kis_file((*KIS_ROWS, ("000100", "KR7000100008", "x" * 20_000_000, "ST")))), "not the list that it"),
        (_Vendor(_kis_file(), truncated=True), "was cut off"),
    ],
)
async def test_a_broken_list_is_not_believed(vendor: _Vendor, says: str) -> None:
    with pytest.raises(ToolError, match=says):
        await download_listings(vendor, [_short(KOREA[0], 5)])


@pytest.mark.parametrize(
    ("name", "accepted"),
    [
        *((each, True) for each in ("KODEX 200선물인버스2X[#1]", 'TIGER "AI" 반도체*', "B@nk (Pref) #A")),
        *((each, False) for each in ("a_b", "a|b", "a`b", "<b", "a\nb", "a\u202eb")),
    ],
)
def test_names_have_common_punctuation_only(name: str, accepted: bool) -> None:
    assert is_plain_name(name) == accepted


@pytest.mark.parametrize("blank", [" ", "\t", " -", "Common Stock "])
def test_reading_a_directory_takes_linear_time(blank: str) -> None:
    name = f"Coca-Cola {blank * 60_000}x|N|KO|N|100|N|KO\nX|"
    began = time.process_time()
    list(read_nasdaq_directory(DIRECTORY.replace("Coca-Cola Company (The)", name).encode()))
    assert is_quick(time.process_time() - began, 0.5)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("Apple Inc.  -  Common Stock", "Apple Inc."),
        (f"Ares Acquisition Corporation II Redeemable Warrants, each {'x ' * 50}", "Ares Acquisition Corporation II"),
        (f"Invesco Actively Managed Exchange-Traded Fund Trust Invesco Steel{'x' * 60} ETF", "Invesco Steel"),
    ],
)
def test_the_terms_of_a_security_are_not_part_of_its_name(text: str, name: str) -> None:
    (row,) = read_nasdaq_directory(f"{DIRECTORY.splitlines()[0]}\nKO|{text}|N|KO|N|100|N|KO".encode())
    assert row.name.startswith(name)
    assert len(row.name) <= 100


def test_a_row_of_an_earlier_refresh_with_an_odd_name_is_not_read(tmp_path: Path) -> None:
    added = AddedInstruments(tmp_path)
    odd = _record("000001", "DO mail__send")
    added.add_refreshed([write_row(_record("000002", "새회사")), write_row(odd)])
    assert added.catalogue().get("000002") is not None
    assert added.catalogue().get("000001") is None


def test_records_are_renewed_and_keep_what_we_know(tmp_path: Path) -> None:
    rows = check_listing(_short(KOREA[0], 5), _kis_file())
    merged = merge_listings(_known(_record("000001", "옛날전자")), rows)
    added = AddedInstruments(tmp_path)
    assert added.add_refreshed(merged) == 7
    catalogue = Catalogue(added.refreshed.read_text("utf-8"))
    samsung = catalogue.find("삼전")
    assert isinstance(samsung, Instrument)
    assert (samsung.symbol, samsung.status, samsung.market, samsung.isin) == (
        *("005930", "listed"),
        *("KOSPI", "KR7005930003"),
    )
    renamed = catalogue.find("CJ4우")  # the former name still leads to it
    assert isinstance(renamed, Instrument)
    assert renamed.name_ko == "CJ4우(전환)"
    gone, new = catalogue.get("000001"), catalogue.get("Q610101")
    assert gone is not None
    assert gone.status == "delisted"
    assert new is not None
    assert new.type == "etn"


@pytest.mark.parametrize(("count", "says"), [(100, "6 rows, and 100 instruments"), (5, "5 of 5 listed instruments")])
def test_a_list_that_would_empty_the_records_is_not_believed(count: int, says: str) -> None:
    many = [_record(f"1{number:04}0", f"회사{number}") for number in range(count)]
    known = Catalogue("\n".join(write_row(read_row(write_row(each).replace("unconfirmed", "listed"))) for each in many))
    with pytest.raises(BadListing, match=says):
        merge_listings(known, check_listing(_short(KOREA[0], 5), _kis_file()))


def test_a_stock_that_changes_its_exchange_stays_one_record() -> None:
    moved = "Symbol|Security Name|Market Category|Test Issue|Financial Status|Round Lot Size|ETF|NextShares\n"
    moved += "PLTR|Palantir Technologies Inc. - Class A Common Stock|Q|N|N|100|N|N\n"
    known = _record("PLTR", "팔란티어", exchange="NYSE")
    merged = merge_listings(Catalogue(write_row(known)), read_nasdaq_directory(moved.encode()))
    catalogue = Catalogue(write_row(known), "\n".join(merged))
    assert len(catalogue) == 1
    found = catalogue.find("팔란티어")
    assert isinstance(found, Instrument)
    assert (found.exchange, found.id) == ("NASDAQ", "US:PLTR")
    assert AMERICA[0].canaries["AAPL"] == "Apple"
