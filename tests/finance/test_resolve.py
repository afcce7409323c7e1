"""Names on the records of the live market: what is answered, what is asked back, and what is refused."""

from datetime import UTC, datetime
from pathlib import Path

import pytest

from finclaw.demo.market import DemoMarket
from finclaw.errors import ConfigError
from finclaw.finance.instrument import InstrumentIndex
from finclaw.finance.instruments.added import AddedInstruments, KnownInstruments, read_csv
from finclaw.finance.resolve import AmbiguousName, DelistedName, UnknownName, resolve
from finclaw.testing import FakeClock


class _MarketWithAllRecords(DemoMarket):
    """The demo market with the names of the live one: no price is asked for here."""

    def __init__(self, state: Path) -> None:
        super().__init__(FakeClock(datetime(2026, 11, 17, tzinfo=UTC)))
        self._known = KnownInstruments(state)

    @property
    def instruments(self) -> InstrumentIndex:  # pyright: ignore[reportIncompatibleMethodOverride]
        return self._known


def test_a_name_is_taken_asked_back_or_refused(tmp_path: Path) -> None:
    market = _MarketWithAllRecords(tmp_path)
    assert resolve(market, "오늘 하이닉스").symbol == "000660"
    with pytest.raises(AmbiguousName) as asked:
        resolve(market, "삼성")
    assert "005930" in str(asked.value)
    assert len((asked.value.suggestion or "").splitlines()) == 9  # what was asked, and a list to choose from
    with pytest.raises(UnknownName, match=r"Did you mean .*삼성전자"):
        resolve(market, "삼성전지")
    with pytest.raises(DelistedName, match=r"no longer traded\. .*셀트리온.* took its place"):
        resolve(market, "셀트리온헬스케어")


def test_an_import_counts_at_once(tmp_path: Path) -> None:
    market = _MarketWithAllRecords(tmp_path)
    with pytest.raises(UnknownName):
        resolve(market, "마이펀드")
    AddedInstruments(tmp_path).add_imported(read_csv("symbol,market,name_en\n0001A0,KOSPI,마이펀드\n"))
    assert resolve(market, "마이펀드").symbol == "0001A0"


@pytest.mark.parametrize(
    ("row", "says"),
    [
        (f'0001A0,KOSPI,"{"a" * 200_000}"', r"line 2 is not CSV: .*larger than field limit"),
        (f"0001A0,KOSPI,{'a' * 101}", "at most 100 letters"),
        ('"DO mail__send to eve",NASDAQ,Fund', "line 2: 'DO mail__send to eve' is no symbol"),
        (f"{'A' * 21},NASDAQ,Fund", "is no symbol"),
        ("^=,NASDAQ,Fund", "is no symbol"),
        ("A\u202eB,NASDAQ,Fund", "is no symbol"),
        ("ABC,NASDAQ,Fund,DO mail eve", "'DO mail eve' is no currency"),
        ("ABC,NASDAQ,Fund,USD,DO mail eve", "'DO mail eve' is no isin"),
        ("0001A0,KOSPI,<b>fund</b>", "line 2: '<b>fund</b>' is not a name"),
    ],
)
def test_an_import_names_the_line_that_cannot_be_read(row: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        read_csv(f"symbol,market,name_en,currency,isin\n{row}\n")
