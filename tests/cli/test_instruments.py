"""`finclaw instruments`: looking things up as a person would, and records of one's own."""

import json
from pathlib import Path

import pytest
from tests.cli.in_process import typed

from finclaw.cli.formatting import text_columns


def _search(text: str, state: Path, *options: str) -> dict[str, object]:
    ended = typed("instruments", "search", text, "--json", "--state", state, *options)
    assert ended.code == 0, ended.err
    return json.loads(ended.out)


def test_search_as_json(tmp_path: Path) -> None:
    assert _search("오늘 하이닉스", tmp_path) == {
        "verdict": "exact",
        "matches": [
            {
                "symbol": "000660",
                "name_ko": "SK하이닉스",
                "name_en": "SK hynix",
                "market": "KOSPI",
                "currency": "KRW",
                "type": "common",
            }
        ],
    }
    assert _search("Google", tmp_path)["verdict"] == "ambiguous"
    assert _search("asdfgh", tmp_path) == {"verdict": "none", "matches": []}
    (coin,) = _search("BTC", tmp_path, "--currency", "KRW")["matches"]  # pyright: ignore
    assert (coin["symbol"], coin["currency"], coin["type"]) == ("BTC", "KRW", "coin")
    (gone,) = _search("TWTR", tmp_path)["matches"]  # pyright: ignore
    assert gone["status"] == "delisted"


def test_search_for_people_is_aligned(tmp_path: Path) -> None:
    head, *rows = typed("instruments", "search", "네카오", "--state", tmp_path).out.splitlines()[1:]
    column = text_columns(head[: head.index("MARKET")])
    assert len(rows) == 2
    for row in rows:
        start = row.index("KOSPI")
        assert text_columns(row[:start]) == column
    assert "it looks like" in typed("instruments", "search", "삼성전지", "--state", tmp_path).out


def test_show_tells_what_each_source_calls_it(tmp_path: Path) -> None:
    shown = json.loads(typed("instruments", "show", "BRK-B", "--json", "--state", tmp_path).out)
    assert (shown["id"], shown["yahoo"], shown["kis"], shown["cik"]) == ("US:BRK.B", "BRK-B", "NYS:BRK/B", "1067983")
    ended = typed("instruments", "show", "Berkshire", "--state", tmp_path)
    assert (ended.code, "BRK.A, BRK.B" in ended.err) == (1, True)


def test_records_of_ones_own_are_kept_and_win(tmp_path: Path) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text(
        "symbol,market,name_en,name_ko,type,aliases\n"
        "0001a0,KOSPI,My Fund,마이펀드,etf,마펀;내펀드\n"
        "AAPL,NASDAQ,Apple,우리 사과,common,\n",
        "utf-8",
    )
    assert typed("instruments", "import", mine, "--state", tmp_path).code == 0
    (fund,) = _search("마펀 주가", tmp_path)["matches"]  # pyright: ignore
    assert (fund["symbol"], fund["type"], fund["currency"]) == ("0001A0", "etf", "KRW")
    assert _search("우리 사과", tmp_path)["verdict"] == "exact"
    mine.write_text("symbol,market,name_en\nQ500061,KOSPI,A Note\n", "utf-8")
    again = json.loads(typed("instruments", "import", mine, "--json", "--state", tmp_path).out)
    assert (again["imported"], again["records"]) == (1, 3)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("symbol,name_en\nA,B\n", "market is missing"),
        ("symbol,market,name_en,price\nA,NYSE,B,1\n", "'price' is not known"),
        ("symbol,market,name_en\n59,KOSPI,B\n", "line 2: 59 is no Korean code"),
        ("symbol,market,name_en\nA,NYSE,B\nB,LSE,C\n", "line 3: the market 'LSE' is not known"),
        ("symbol,market,name_en,type\nA,NYSE,B,bond\n", "the type 'bond' is not known"),
    ],
)
def test_a_file_with_a_mistake_changes_nothing(tmp_path: Path, text: str, says: str) -> None:
    mine = tmp_path / "mine.csv"
    mine.write_text(text, "utf-8")
    ended = typed("instruments", "import", mine, "--state", tmp_path)
    assert ended.code == 2
    assert says in ended.err
    assert not (tmp_path / "instruments").exists()


def test_a_backup_brings_them_back(tmp_path: Path) -> None:
    state, mine, file = tmp_path / "state", tmp_path / "mine.csv", tmp_path / "all.tar"
    assert typed("people", "set", "owner", "--currency", "KRW", "--state", state).code == 0
    mine.write_text("symbol,market,name_en\n0001A0,KOSPI,My Fund\n", "utf-8")
    assert typed("instruments", "import", mine, "--state", state).code == 0
    made = typed("backup", file, "--state", state)
    assert made.code == 0, made.err
    back = typed("restore", file, "--state", tmp_path / "other")
    assert back.code == 0, back.err
    assert _search("My Fund", tmp_path / "other")["verdict"] == "exact"
